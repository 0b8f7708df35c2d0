package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"

	"weir/internal/admin"
	"weir/internal/config"
	"weir/internal/control"
	"weir/internal/expr"
	"weir/internal/model"
	"weir/internal/plugins"
	"weir/internal/protofile"
	"weir/internal/snapshot"
)

// openAdmin starts the Admin API. It opens with the data plane: a write is
// checked against the state, which must be there for that.
func (g *Gateway) openAdmin(ctx context.Context) error {
	if !g.Config.APISIX.EnableAdmin {
		return nil
	}
	a := &g.Config.Deployment.Admin
	t, err := adminTLS(a)
	if err != nil {
		return err
	}
	cfg := admin.Config{
		KeyRequired: a.KeyRequired, CORS: a.CORS, Version: a.Version, Server: g.serverName(),
		Stream: g.Config.APISIX.HTTP.ProxyMode != "http", Prefix: g.Config.Deployment.Etcd.Prefix,
		EncryptFields: g.Config.APISIX.DataEncryption.Enable, AckTimeout: g.Config.Weir.AckTimeout,
	}
	for _, k := range g.keys {
		cfg.Keys = append(cfg.Keys, admin.Key{Name: k.Name, Key: k.Key.Reveal(), Role: k.Role})
	}
	for _, s := range a.Allow {
		p, err := prefix(s)
		if err != nil {
			return fmt.Errorf("deployment.admin.allow_admin: %w", err)
		}
		cfg.Allow = append(cfg.Allow, p)
	}
	deps := admin.Deps{
		Store: g.store, Applier: g.state, View: func() admin.View { return view{g.state.Current()} },
		Checker: g.documents,
		Ring:    g.ring, Plugins: plugins.All(), StreamPlugins: plugins.Streams(), Log: g.log,
		Record: g.audit.record, Reload: g.reload,
		Enabled: func(name string, stream bool) bool { return g.state.Current().Enabled(name, stream) },
	}
	if g.pushed != nil {
		deps.Configs = g.pushed
	}
	var api http.Handler = admin.New(cfg, deps)
	if !a.KeyRequired && isLoopback(a.Listen.String()) {
		api = control.Local("Admin API", api)
	}
	g.admin, err = g.serve(ctx, "admin", a.Listen.String(), api, t)
	return err
}

// checkVars says what is wrong with a match expression.
func checkVars(raw json.RawMessage) error {
	_, err := expr.Compile(raw)
	return err
}

// checkProto says what is wrong with the content of a proto object.
func checkProto(content string) error {
	_, err := protofile.Compile(content)
	return err
}

func prefix(s string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// adminTLS is nil where the Admin API is plain.
func adminTLS(a *config.Admin) (*tls.Config, error) {
	if !a.HTTPS {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(a.MTLS.Cert, a.MTLS.Key)
	if err != nil {
		return nil, fmt.Errorf("deployment.admin.admin_api_mtls: %w", err)
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	if a.MTLS.CA == "" {
		return t, nil
	}
	pem, err := os.ReadFile(a.MTLS.CA)
	if err != nil {
		return nil, fmt.Errorf("deployment.admin.admin_api_mtls: %w", err)
	}
	t.ClientCAs, t.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !t.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("deployment.admin.admin_api_mtls: admin_ssl_ca_cert holds no certificate")
	}
	return t, nil
}

// A view is a snapshot as the Admin API sees it.
type view struct{ *snapshot.Snapshot }

func (v view) Users(of model.Key) []admin.Use {
	var out []admin.Use
	for _, u := range v.Snapshot.Users(of) {
		out = append(out, admin.Use{By: u.By, Plugin: u.Plugin})
	}
	return out
}
