package config

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// check asks what the types could not say.
func (c *Config) check(env environment) error {
	return errors.Join(c.checkAPISIX(), c.checkNginx(), c.checkDeployment(env), c.checkWeir())
}

func (c *Config) checkAPISIX() error {
	a := &c.APISIX
	errs := []error{
		oneOf("apisix.router.http", a.Router.HTTP, "radixtree_host_uri", "radixtree_uri", "radixtree_uri_with_parameter"),
		oneOf("apisix.router.ssl", a.Router.SSL, "radixtree_sni"),
		oneOf("apisix.proxy_mode", a.HTTP.ProxyMode, "http", "stream", "http&stream"),
		port("apisix.control.port", a.Control.Port),
		addresses("apisix.trusted_addresses", a.TrustedAddresses),
		versions(a.SSL.Protocols),
	}
	if a.Status != nil {
		errs = append(errs, port("apisix.status.port", a.Status.Port))
	}
	if c.Deployment.Role == "control_plane" {
		a.EnableAdmin = true
	}
	if c.Deployment.Role == "data_plane" {
		a.EnableAdmin = false
	}
	if a.HTTP.ProxyMode != "stream" && len(a.HTTP.NodeListen) == 0 {
		errs = append(errs, errors.New("apisix.node_listen: no port is given"))
	}
	if k := a.DataEncryption.Keyring; a.DataEncryption.Enable && k != nil && len(k) == 0 {
		errs = append(errs, errors.New("apisix.data_encryption.keyring: no key is given"))
	}
	return errors.Join(errs...)
}

func versions(protocols string) error {
	fields := strings.Fields(protocols)
	for _, v := range fields {
		if err := oneOf("apisix.ssl.ssl_protocols", v, "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"); err != nil {
			return err
		}
	}
	if len(fields) == 0 {
		return errors.New("apisix.ssl.ssl_protocols: no version is given")
	}
	return nil
}

func (c *Config) checkNginx() error {
	n := &c.Nginx
	from := slices.DeleteFunc(slices.Clone(n.HTTP.RealIP.From), func(s string) bool { return s == "unix:" })
	errs := []error{
		oneOf("nginx_config.error_log_level", n.ErrorLogLevel,
			"debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"),
		oneOf("nginx_config.http.access_log_format_escape", n.HTTP.Log.Escape, "default", "json"),
		addresses("nginx_config.http.real_ip_from", from),
	}
	if n.Event.WorkerConnections < 0 {
		errs = append(errs, errors.New("nginx_config.event.worker_connections: is below 0"))
	}
	return errors.Join(errs...)
}

var etcdHost = regexp.MustCompile(`^https?://[^/]+/?$`)

func (c *Config) checkDeployment(env environment) error {
	d := &c.Deployment
	errs := []error{
		oneOf("deployment.role", d.Role, "traditional", "control_plane", "data_plane"),
		oneOf("deployment.role_traditional.config_provider", d.Traditional.Provider, "etcd", "yaml"),
		oneOf("deployment.role_control_plane.config_provider", d.ControlPlane.Provider, "etcd"),
		oneOf("deployment.role_data_plane.config_provider", d.DataPlane.Provider, "etcd", "yaml", "json", "xds"),
		oneOf("deployment.admin.admin_api_version", d.Admin.Version, "default", "v2", "v3"), // APISIX calls v2 default
		addresses("deployment.admin.allow_admin", d.Admin.Allow),
		port("deployment.admin.admin_listen.port", d.Admin.Listen.Port),
	}
	if d.Admin.Keys == nil {
		d.Admin.KeyRequired = false // admin_key: null, as in APISIX
	}
	for i, k := range d.Admin.Keys {
		at := fmt.Sprintf("deployment.admin.admin_key.%d", i+1)
		errs = append(errs, oneOf(at+".role", k.Role, "admin", "viewer"))
		if k.Name == "" {
			errs = append(errs, fmt.Errorf("%s.name: is missing", at))
		}
	}
	if m := d.Admin.MTLS; d.Admin.HTTPS && (m.Cert == "" || m.Key == "") {
		errs = append(errs, errors.New("missing ssl cert for https admin"))
	}
	if len(d.Etcd.Host) == 0 && !c.Embedded {
		errs = append(errs, errors.New("deployment.etcd.host: no address is given"))
	}
	for i, h := range d.Etcd.Host {
		if !etcdHost.MatchString(h) {
			errs = append(errs, fmt.Errorf("deployment.etcd.host.%d: does not have the form http://HOST:PORT", i+1))
		}
	}
	if !strings.HasPrefix(d.Etcd.Prefix, "/") {
		errs = append(errs, errors.New("deployment.etcd.prefix: does not begin with /"))
	}
	if (d.Etcd.TLS.Cert == "") != (d.Etcd.TLS.Key == "") {
		errs = append(errs, errors.New("deployment.etcd.tls: cert and key are needed together"))
	}
	if p := d.Provider(); env["APISIX_STAND_ALONE"] == "true" && p != "yaml" && p != "json" {
		errs = append(errs, fmt.Errorf("APISIX_STAND_ALONE is set, but config_provider is %q, not yaml or json", p))
	}
	return errors.Join(errs...)
}

func (c *Config) checkWeir() error {
	w := &c.Weir
	var errs []error
	if w.Store.Dir == "" {
		errs = append(errs, errors.New("weir.store.dir: is empty"))
	}
	if w.MaxPerAddress < 0 {
		errs = append(errs, errors.New("weir.max_connections_per_address: is below 0"))
	}
	if w.AckTimeout <= 0 {
		errs = append(errs, errors.New("weir.ack_timeout: is not above 0"))
	}
	if l := w.Store.Listen; l != "auto" && l != "off" {
		if _, err := netip.ParseAddrPort(l); err != nil {
			errs = append(errs, errors.New("weir.store.listen: is neither auto, off nor IP:PORT"))
		}
	}
	return errors.Join(errs...)
}

func oneOf(path, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s: is not one of %s", path, strings.Join(allowed, ", "))
}

func port(path string, p int) error {
	if p < 0 || p > 65535 {
		return errors.New(path + ": is not a port")
	}
	return nil
}

func addresses(path string, list []string) error {
	for i, s := range list {
		_, err1 := netip.ParseAddr(s)
		_, err2 := netip.ParsePrefix(s)
		if err1 != nil && err2 != nil {
			return errors.New(path + "." + strconv.Itoa(i+1) + ": is neither an IP address nor a CIDR block")
		}
	}
	return nil
}
