package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/config"
)

// loaded are places with a configuration.
func loaded(t *testing.T, text string, environ ...string) *places {
	t.Helper()
	c, err := config.Parse("test", []byte(text), environ)
	if err != nil {
		t.Fatal(err)
	}
	return &places{config: c}
}

func TestOpenPlaces(t *testing.T) {
	const conf = `deployment: {etcd: {host: ["http://x:1"], prefix: /conf, user: u, password: p}, admin: {admin_listen: {ip: 0.0.0.0, port: 91}, https_admin: true, admin_api_mtls: {admin_ssl_cert: a, admin_ssl_cert_key: b}}}`
	for name, want := range map[string]string{
		"http://127.0.0.1:9180":                  "*transfer.Admin http://127.0.0.1:9180",
		"http://KEY@127.0.0.1:9180/":             "*transfer.Admin http://127.0.0.1:9180",
		"https://gw/apisix/admin":                "*transfer.Admin https://gw",
		"etcd://127.0.0.1:2379":                  "*transfer.Etcd etcd://127.0.0.1:2379/conf",
		"etcds://u:secret@h:1/other,etcds://i:2": "*transfer.Etcd etcd://h:1,i:2/other",
		"etcd:///x":                              `"etcd:///x" is not the URL of an etcd, like http://127.0.0.1:2379`,
		"http://":                                `"http:" is not the URL of an Admin API, like http://127.0.0.1:9180`,
		"apisix.yaml":                            "transfer.File apisix.yaml",
		"-":                                      "transfer.File standard input",
	} {
		p := loaded(t, conf)
		at, err := p.open(name, nil)
		got := fmt.Sprintf("%T %v", at, at)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		p.close()
	}
	if got := loaded(t, conf).configuredAdmin(); got != "https://127.0.0.1:91" {
		t.Error(got)
	}
	if _, err := (&places{admin: "a", etcd: "b"}).target(nil); err == nil {
		t.Error("two places were taken")
	}
}

func TestAdminKey(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "k")
	if err := os.WriteFile(file, []byte("in-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "admin.key"), []byte("made\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	store := "weir: {store: {dir: " + dir + "}}\n"
	const two = "deployment: {admin: {admin_key: [{name: v, key: view, role: viewer}, {name: admin, key: configured, role: admin}]}}"
	for _, c := range []struct {
		p    *places
		flag places
		want string
	}{
		{loaded(t, store+two, "WEIR_ADMIN_KEY=env"), places{key: "flag", keyFile: file}, "flag"},
		{loaded(t, store+two, "WEIR_ADMIN_KEY=env"), places{keyFile: file}, "in-file"},
		{loaded(t, store+two, "WEIR_ADMIN_KEY=env"), places{}, "env"},
		{loaded(t, store+two), places{}, "configured"},
		{loaded(t, store), places{}, "made"},
		{loaded(t, "weir: {store: {dir: "+dir+"/none}}"), places{}, ""},
	} {
		c.p.key, c.p.keyFile = c.flag.key, c.flag.keyFile
		if got, err := c.p.adminKey(); err != nil || got != c.want {
			t.Errorf("got %s, %v, want %s", got, err, c.want)
		}
	}
	if _, err := (&places{keyFile: file + ".none"}).adminKey(); err == nil {
		t.Error("a key file that is not there was taken for no key")
	}
}

// lines is a writer that tells of the first line.
type lines struct {
	mu    sync.Mutex
	b     bytes.Buffer
	first chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b.Len() == 0 {
		close(l.first)
	}
	return l.b.Write(p)
}

func TestProgress(t *testing.T) {
	w := &lines{first: make(chan struct{})}
	p := startProgress(w, time.Millisecond)
	p.at(3)
	p.begin("writing", 10)
	p.at(7)
	<-w.first
	p.end()
	if first, _, _ := strings.Cut(w.b.String(), "\n"); first != "writing: 7 of 10 objects, 0 s" && first != "writing: 0 of 10 objects, 0 s" {
		t.Error(first)
	}
	silent := &lines{first: make(chan struct{})}
	startProgress(silent, time.Hour).end()
	if silent.b.Len() > 0 {
		t.Error(silent.b.String())
	}
}
