package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"weir/internal/model"
	"weir/internal/resolve"
	"weir/internal/upstream"
)

// upstreamEnv is what upstreams are compiled with.
func (g *Gateway) upstreamEnv() (upstream.Env, error) {
	a, u := &g.Config.APISIX, g.Config.Nginx.HTTP.Upstream
	env := upstream.Env{
		Pools: upstream.NewPools(),
		Defaults: upstream.Defaults{
			Keepalive: model.Keepalive{Size: u.Keepalive, IdleTimeout: u.Timeout, Requests: u.Requests},
		},
		NoChecks: a.Server.DisableHealthChecks,
		OpenKey:  g.ring.OpenKey,
		Log:      g.log,
	}
	g.onStop(func(context.Context) error {
		env.Pools.Close()
		return nil
	})
	client := resolve.NewClient(resolve.Config{
		Servers: a.DNS.Resolvers, Timeout: a.DNS.Timeout, Search: a.DNS.Search, IPv6: a.HTTP.EnableIPv6,
	})
	env.Names = g.names(resolve.Options{Valid: a.DNS.Valid, Log: g.log}, client, resolve.ForHosts())
	g.resolver = env.Names
	var err error
	if env.Roots, err = roots(a.SSL.TrustedCertificate); err != nil {
		return env, err
	}
	env.Discovery, err = g.discovery(env.Roots)
	return env, err
}

// names is a cache that asks client; it ends with the gateway.
func (g *Gateway) names(o resolve.Options, client *resolve.Client, types []resolve.Type) *resolve.Cache {
	o.Lookup = func(ctx context.Context, name string) (resolve.Answer, error) {
		return client.Lookup(ctx, name, types)
	}
	c := resolve.NewCache(o)
	g.onStop(func(context.Context) error {
		c.Close()
		return nil
	})
	return c
}

// roots are the certificates trusted where upstreams are verified: "system",
// files, or several of them with commas between; nil: the system's.
func roots(trusted string) (*x509.CertPool, error) {
	if trusted == "" || isSystem(trusted) {
		return nil, nil
	}
	pool, files := x509.NewCertPool(), strings.Split(trusted, ",")
	var err error
	if slices.ContainsFunc(files, isSystem) {
		if pool, err = x509.SystemCertPool(); err != nil {
			return nil, fmt.Errorf("apisix.ssl.ssl_trusted_certificate: %w", err)
		}
	}
	for _, f := range slices.DeleteFunc(files, isSystem) {
		f = strings.TrimSpace(f)
		pem, err := os.ReadFile(f)
		if err == nil && !pool.AppendCertsFromPEM(pem) {
			err = errors.New("no certificate in " + f)
		}
		if err != nil {
			return nil, fmt.Errorf("apisix.ssl.ssl_trusted_certificate: %w", err)
		}
	}
	return pool, nil
}

func isSystem(s string) bool { return strings.TrimSpace(s) == "system" }
