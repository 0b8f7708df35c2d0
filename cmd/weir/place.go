package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/app"
	"weir/internal/config"
	"weir/internal/transfer"
)

// A place is where a configuration is.
type place interface {
	fmt.Stringer
	Read(context.Context) (*transfer.State, error)
}

// places are the flags that say where configurations are and how to get at
// them, and what follows from them.
type places struct {
	configFile string
	admin      string
	key        string
	keyFile    string
	ca         string
	cert       string
	certKey    string
	etcd       string
	prefix     string

	config  *config.Config
	schemas *transfer.Schemas
	closers []func() error
}

// adminFlags are those of every command that speaks to an Admin API.
func (p *places) adminFlags(cmd *cobra.Command) {
	configFlag(cmd, &p.configFile)
	f := cmd.Flags()
	f.StringVar(&p.admin, "admin", "", "`URL` of the Admin API; without it what the configuration says, http://127.0.0.1:9180 by default")
	f.StringVar(&p.key, "key", "", "Admin `key`")
	f.StringVar(&p.keyFile, "key-file", "", "`file` with the Admin key; without a key flag WEIR_ADMIN_KEY, the configuration, data/admin.key")
	f.StringVar(&p.ca, "ca", "", "`file` with the certificates that an https Admin API is checked by")
	f.StringVar(&p.cert, "cert", "", "`file` with a client certificate for the Admin API")
	f.StringVar(&p.certKey, "cert-key", "", "`file` with its private key")
}

func (p *places) flags(cmd *cobra.Command) {
	p.adminFlags(cmd)
	cmd.Flags().StringVar(&p.etcd, "etcd", "", "`URL` of an etcd, several separated by commas; user, password and TLS as in the configuration")
	cmd.Flags().StringVar(&p.prefix, "prefix", "", "`path` that its keys begin with; without it what the configuration says, /apisix by default")
}

// load reads the configuration.
func (p *places) load() error {
	var err error
	if p.config, err = config.Load(p.configFile, os.Environ()); err != nil {
		return err
	}
	p.schemas, err = app.Schemas(p.config)
	return err
}

// close ends the connections.
func (p *places) close() {
	for _, c := range p.closers {
		_ = c() // what was asked for is done
	}
}

// target is the place that the flags name, an Admin API unless it is an etcd.
func (p *places) target(progress func(int)) (place, error) {
	if p.etcd != "" {
		if p.admin != "" {
			return nil, usageError{errors.New("--admin and --etcd are two places; one is meant")}
		}
		return p.openEtcd(p.etcd)
	}
	return p.openAdmin(p.admin, progress)
}

// open is the place that an argument names: an Admin API by http:// or
// https://, an etcd by etcd:// or, with TLS, etcds://, everything else a file.
func (p *places) open(name string, progress func(int)) (place, error) {
	scheme, _, _ := strings.Cut(name, "://")
	switch scheme {
	case "http", "https":
		return p.openAdmin(name, progress)
	case "etcd", "etcds":
		return p.openEtcd(name)
	}
	return transfer.File{Path: name, Prefix: p.etcdPrefix(), Environ: os.Environ()}, nil
}

func (p *places) etcdPrefix() string {
	if p.prefix != "" {
		return p.prefix
	}
	return p.config.Deployment.Etcd.Prefix
}

// openAdmin opens an Admin API. A key in front of its host wins over the flags:
// two gateways may have two keys.
func (p *places) openAdmin(name string, progress func(int)) (*transfer.Admin, error) {
	if name == "" {
		name = p.configuredAdmin()
	}
	cfg := transfer.AdminConfig{Schemas: p.schemas, Progress: progress}
	u, err := url.Parse(name)
	if err != nil {
		return nil, usageError{fmt.Errorf("--admin: %w", err)}
	}
	if u.User != nil {
		cfg.Key = u.User.Username()
		u.User = nil
	} else if cfg.Key, err = p.adminKey(); err != nil {
		return nil, err
	}
	cfg.URL = u.String()
	if cfg.TLS, err = p.adminTLS(); err != nil {
		return nil, err
	}
	a, err := transfer.NewAdmin(cfg)
	if err != nil {
		return nil, usageError{err}
	}
	p.closers = append(p.closers, a.Close)
	return a, nil
}

// configuredAdmin is the Admin API of the configuration.
func (p *places) configuredAdmin() string {
	a := &p.config.Deployment.Admin
	scheme := "http"
	if a.HTTPS {
		scheme = "https"
	}
	return scheme + "://" + reachable(a.Listen)
}

// reachable is an address that a client can use for one that a server listens
// on.
func reachable(e config.Endpoint) string {
	switch e.IP {
	case "", "0.0.0.0", "::", "[::]":
		e.IP = "127.0.0.1"
	}
	return e.String()
}

// adminKey finds the key: flags, environment, configuration, data folder. Empty
// means that none was found, and none may be needed.
func (p *places) adminKey() (string, error) {
	if p.key != "" {
		return p.key, nil
	}
	if p.keyFile != "" {
		b, err := os.ReadFile(p.keyFile)
		return strings.TrimSpace(string(b)), err
	}
	for _, k := range p.config.Deployment.Admin.Keys { // WEIR_ADMIN_KEY is among them
		if k.Role == "admin" && k.Key != "" {
			return k.Key.Reveal(), nil
		}
	}
	b, err := os.ReadFile(p.madeKey())
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}

// madeKey is the file in which a gateway keeps the key that it made.
func (p *places) madeKey() string { return filepath.Join(p.config.Weir.Store.Dir, "admin.key") }

func (p *places) adminTLS() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.ca != "" {
		pem, err := os.ReadFile(p.ca)
		if err != nil {
			return nil, err
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", p.ca)
		}
	}
	if p.cert != "" {
		pair, err := tls.LoadX509KeyPair(p.cert, p.certKey)
		if err != nil {
			return nil, err
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// openEtcd opens an etcd. A user and a prefix in the URL win over flags and
// configuration.
func (p *places) openEtcd(name string) (*transfer.Etcd, error) {
	cfg, err := app.EtcdConfig(p.config)
	if err != nil {
		return nil, err
	}
	cfg.Prefix, cfg.Endpoints = p.etcdPrefix(), nil
	cfg.DialTimeout, cfg.Timeout = 5*time.Second, 10*time.Second // somebody waits
	for one := range strings.SplitSeq(name, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Host == "" {
			return nil, usageError{fmt.Errorf("%q is not the URL of an etcd, like http://127.0.0.1:2379", one)}
		}
		switch u.Scheme {
		case "etcd":
			u.Scheme = "http"
		case "etcds":
			u.Scheme = "https"
		}
		if u.User != nil {
			cfg.User = u.User.Username()
			cfg.Password, _ = u.User.Password()
		}
		if path := strings.TrimRight(u.Path, "/"); path != "" {
			cfg.Prefix = path
		}
		cfg.Endpoints = append(cfg.Endpoints, (&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
	}
	e, err := transfer.OpenEtcd(transfer.EtcdConfig{Config: cfg, Schemas: p.schemas})
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, e.Close)
	return e, nil
}

// explain adds to an error of a place what the user can do about it.
func (p *places) explain(at fmt.Stringer, err error) error {
	var gone *transfer.Unreachable
	var no *transfer.Refusal
	_, isEtcd := at.(*transfer.Etcd)
	switch {
	case errors.As(err, &gone) && isEtcd:
		return fmt.Errorf("%w\nIs it running? Another address is given with --etcd URL", err)
	case errors.As(err, &gone):
		return fmt.Errorf("the Admin API at %w\nIs the gateway running (weir run)? Another address is given with --admin URL or -c config.yaml", err)
	case errors.As(err, &no) && no.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w\n%s", err, p.keyAdvice())
	case errors.As(err, &no) && no.Status == http.StatusForbidden:
		return fmt.Errorf("%w\nThe gateway's deployment.admin.allow_admin does not let this address in", err)
	}
	return err
}

func (p *places) keyAdvice() string {
	const give = "Give the right one with --key, --key-file or WEIR_ADMIN_KEY"
	switch key, err := p.adminKey(); {
	case err != nil || key == "":
		return fmt.Sprintf("No key was sent: %s is not there or not readable. %s", p.madeKey(), give)
	case p.key != "":
		return "The key of --key was sent. " + give
	case p.keyFile != "":
		return fmt.Sprintf("The key in %s was sent. %s", p.keyFile, give)
	case os.Getenv("WEIR_ADMIN_KEY") != "":
		return "The key in WEIR_ADMIN_KEY was sent. " + give
	}
	return "The key of the configuration was sent, or that in " + p.madeKey() + ". " + give
}
