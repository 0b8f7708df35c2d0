package app

// What is open and what is readable when nobody said so.

import (
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/config"
)

// Nothing that the gateway writes is for other users of the machine, whatever
// the umask.
func TestFileModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := t.TempDir()
	o, _ := options(t, dir, "plugins: [file-logger, key-auth]\n")
	o.Config.Weir.AuditLog = filepath.Join(dir, "logs", "audit.log")
	g := start(t, o)
	key, err := os.ReadFile(filepath.Join(dir, "data", "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest("PUT", g.adminURL()+"/routes/1",
		strings.NewReader(`{"uri":"/a","plugins":{"file-logger":{"path":"`+dir+`/entries.log"}},"upstream":{"nodes":{"`+origin(t)+`":1}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", strings.TrimSpace(string(key)))
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != 201 {
		t.Fatal(res, err)
	}
	res.Body.Close()
	if status, _ := get(t, "http://"+g.Data()[0].String()+"/a"); status != 200 {
		t.Error(status)
	}
	stop(t, g)
	seen := map[string]bool{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen[d.Name()] = true
		rel, _ := filepath.Rel(dir, path)
		mode := info.Mode().Perm()
		if mode&0o7 != 0 || mode&0o20 != 0 {
			if !strings.HasPrefix(rel, "data/") { // of which nobody else enters the top
				t.Errorf("%s has mode %o", rel, mode)
			}
		}
		switch rel {
		case "data":
			if mode != 0o700 {
				t.Errorf("data has mode %o", mode)
			}
		case "data/admin.key", "data/lock":
			if mode != 0o600 {
				t.Errorf("%s has mode %o", rel, mode)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"admin.key", "error.log", "access.log", "audit.log", "entries.log", "data"} {
		if !seen[name] {
			t.Errorf("%s was not written: %v", name, seen)
		}
	}
}

// What configures or tells is on loopback, or not there, unless it is asked for.
func TestClosedByDefault(t *testing.T) {
	c, err := config.Parse("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.APISIX.Status != nil && !loopback(c.APISIX.Status.String()) {
		t.Error("status is on", c.APISIX.Status)
	}
	for what, addr := range map[string]string{"control": c.APISIX.Control.String(), "admin": c.Deployment.Admin.Listen.String()} {
		if !loopback(addr) {
			t.Errorf("%s is on %s", what, addr)
		}
	}
	if len(c.Deployment.Admin.Allow) == 0 || !c.Deployment.Admin.KeyRequired {
		t.Errorf("the Admin API: %+v", c.Deployment.Admin)
	}
	// The same with real sockets: only the data plane is not on loopback.
	o, _ := options(t, t.TempDir(), "plugin_attr: {prometheus: {export_addr: {port: 0}}}")
	g := start(t, o)
	defer stop(t, g)
	for what, addr := range map[string]net.Addr{"admin": g.Admin(), "control": g.Control(), "status": g.Status(), "metrics": g.Metrics()} {
		if addr == nil || !loopback(addr.String()) {
			t.Errorf("%s is on %v", what, addr)
		}
	}
	for _, key := range []string{"", "x", "edd1c9f034335f136f87ad84b625c8f1", "4054f7cf07e344346cd3f287985e76a2"} { // the latter two are APISIX's old defaults
		if status, _ := get(t, g.adminURL()+"/routes", "X-API-KEY", key); status != 401 {
			t.Errorf("key %q: %d", key, status)
		}
	}
	// A page whose name DNS leads here reads nothing.
	for host, want := range map[string]int{"evil.test": 403, "localhost": 200} {
		if status, _ := get(t, "http://"+g.Control().String()+"/v1/routes", "Host", host); status != want {
			t.Errorf("the Control API as %s: %d", host, status)
		}
	}
	// Nothing of them is reachable where requests are served.
	for _, path := range []string{"/apisix/admin/routes", "/v1/schema", "/v1/status", "/v1/profile", "/apisix/prometheus/metrics", "/status", "/apisix/status"} {
		if status, body := get(t, "http://"+g.Data()[0].String()+path); status != 404 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// Without keys, a page whose name DNS leads to the Admin API reads and writes nothing.
func TestKeylessAdminOnLoopback(t *testing.T) {
	o, _ := options(t, t.TempDir(), "deployment: {admin: {admin_key_required: false}}")
	g := start(t, o)
	defer stop(t, g)
	for host, want := range map[string]int{"evil.test": 403, "localhost": 200, "": 200} {
		if status, _ := get(t, g.adminURL()+"/routes", "Host", host); status != want {
			t.Errorf("as %q: %d, want %d", host, status, want)
		}
	}
}

func loopback(addr string) bool {
	a, err := netip.ParseAddrPort(addr)
	return err == nil && a.Addr().IsLoopback()
}

// The management API of 3scale's products tells by default, and changes nothing.
func TestManagementByDefault(t *testing.T) {
	o, _ := accountOptions(t, t.TempDir(), "data:application/json,"+productsOf(echoing(1, "one.test", 201)))
	g := start(t, o)
	defer stop(t, g)
	manage := "http://" + g.Management().String()
	for _, path := range []string{"/boot", "/config"} {
		if status, body := post(t, manage+path); status < 400 {
			t.Errorf("POST %s: %d %s", path, status, body)
		}
	}
	if status, body := get(t, manage+"/config"); status < 400 {
		t.Errorf("GET /config: %d %s", status, body)
	}
	if status, _ := askProduct(t, g, "one.test", "/"); status != 201 {
		t.Error(status)
	}
}
