package app

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const exported = "plugin_attr: {prometheus: {export_addr: {port: %d}}}\n"

func putRule(t *testing.T, g *Gateway, body string) {
	t.Helper()
	if status, answer := do(t, g, "PUT", "/global_rules/1", body); status != 201 {
		t.Fatal(status, answer)
	}
}

// TestMetrics: the export server shows the requests of a route, of which a global
// rule counts, and the numbers of the process.
func TestMetrics(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := l.Addr().(*net.TCPAddr).Port
	o, _ := options(t, t.TempDir(), fmt.Sprintf(exported, taken))
	if g, err := Start(t.Context(), o); err == nil {
		stop(t, g)
		t.Error("started although the address in the configuration is taken")
	}
	l.Close()

	o, out := options(t, t.TempDir(), fmt.Sprintf(exported, 0)+withKey)
	o.Example = true
	g := start(t, o)
	defer stop(t, g)
	if !strings.Contains(out.String(), "metrics  http://"+g.Metrics().String()+"/apisix/prometheus/metrics\n") {
		t.Error(out)
	}
	putRule(t, g, `{"plugins":{"prometheus":{}}}`)
	for range 3 {
		get(t, "http://"+g.Data()[0].String()+"/hello", "apikey", exampleKey)
	}
	want := []string{
		`apisix_http_status{code="200",route="example",matched_uri="/hello",matched_host="",service="",consumer="jack",node="127.0.0.1",`,
		`apisix_node_info{hostname="`,
		`version="1.2.3"} 1`,
		"apisix_http_requests_total 3",
		`apisix_nginx_http_current_connections{state="active"} `,
		"apisix_etcd_reachable 1",
		`apisix_etcd_modify_indexes{key="global_rules"} `,
		`apisix_etcd_modify_indexes{key="max_modify_index"} `,
	}
	var all string
	for range 200 { // the log phase comes after the answer
		_, all = get(t, "http://"+g.Metrics().String()+"/apisix/prometheus/metrics")
		if strings.Contains(all, `response_source="upstream"} 3`) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	for _, w := range append(want, `response_source="upstream"} 3`) {
		if !strings.Contains(all, w) {
			t.Errorf("no %s in\n%s", w, all)
		}
	}
}

// TestRotation: the files that plugins write are opened anew with the logs.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	o, _ := options(t, dir, withKey)
	o.Example = true
	g := start(t, o)
	defer stop(t, g)
	path := filepath.Join(dir, "file.log")
	putRule(t, g, fmt.Sprintf(`{"plugins":{"file-logger":{"path":%q,"log_format":{"a":"b"}}}}`, path))
	lines := func(path string, want int) {
		t.Helper()
		n := 0
		for range 400 {
			b, _ := os.ReadFile(path)
			if n = strings.Count(string(b), "\n"); n == want {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Fatalf("%s has %d lines, want %d", path, n, want)
	}
	url := "http://" + g.Data()[0].String() + "/"
	get(t, url)
	lines(path, 1)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := g.Reopen(); err != nil {
		t.Fatal(err)
	}
	get(t, url)
	lines(path, 1)
	lines(path+".1", 1)
}
