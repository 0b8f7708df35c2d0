package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.yaml.in/yaml/v3"

	"weir/internal/leaktest"
)

// TestMain lets the test binary stand in for weir: `TEST run -c config.yaml`.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "run" && os.Args[2] == "-c" {
		if err := fakeWeir(os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leaktest.Main(m)
}

// fakeWeir serves what the configuration asks for until it is told to end. An
// embedded store is an etcd that it runs.
func fakeWeir(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var c struct {
		Apisix struct {
			NodeListen []struct {
				IP   string `yaml:"ip"`
				Port int    `yaml:"port"`
			} `yaml:"node_listen"`
			Control struct {
				IP   string `yaml:"ip"`
				Port int    `yaml:"port"`
			} `yaml:"control"`
		} `yaml:"apisix"`
		Deployment struct {
			Role  string `yaml:"role"`
			Admin struct {
				AdminListen struct {
					IP   string `yaml:"ip"`
					Port int    `yaml:"port"`
				} `yaml:"admin_listen"`
			} `yaml:"admin"`
			Etcd struct {
				Host []string `yaml:"host"`
			} `yaml:"etcd"`
		} `yaml:"deployment"`
		Weir struct {
			Store struct {
				Dir    string `yaml:"dir"`
				Listen string `yaml:"listen"`
			} `yaml:"store"`
		} `yaml:"weir"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if portal := os.Getenv("THREESCALE_PORTAL_ENDPOINT"); portal != "" {
		return fakeAPIcast(ctx, portal, os.Getenv("APICAST_HTTP_PORT"), strconv.Itoa(c.Apisix.Control.Port))
	}
	if listen := c.Apisix.NodeListen[0]; c.Deployment.Role == "data_plane" {
		return fakeStandalone(ctx, fmt.Sprintf("%s:%d", listen.IP, listen.Port), filepath.Join(filepath.Dir(path), "apisix.yaml"))
	}
	endpoints := c.Deployment.Etcd.Host
	if len(endpoints) == 0 {
		url := "http://" + c.Weir.Store.Listen
		etcd := exec.Command("etcd", "--data-dir", c.Weir.Store.Dir, "--listen-client-urls", url,
			"--advertise-client-urls", url, "--listen-peer-urls", "http://127.0.0.1:0")
		if err := etcd.Start(); err != nil {
			return err
		}
		defer func() { _ = etcd.Process.Kill(); _ = etcd.Wait() }()
		endpoints = []string{url}
	}
	f := newFakeGateway()
	var wg sync.WaitGroup
	defer wg.Wait()
	if err := follow(ctx, &wg, f, endpoints); err != nil {
		return err
	}
	listen := c.Apisix.NodeListen[0]
	admin, control := c.Deployment.Admin.AdminListen, c.Apisix.Control
	servers := []*http.Server{
		{Addr: fmt.Sprintf("%s:%d", listen.IP, listen.Port), Handler: http.HandlerFunc(f.data)},
		{Addr: fmt.Sprintf("%s:%d", admin.IP, admin.Port), Handler: http.HandlerFunc(f.adminAPI)},
		{Addr: fmt.Sprintf("%s:%d", control.IP, control.Port), Handler: http.HandlerFunc(f.control)},
	}
	for _, s := range servers {
		wg.Go(func() { _ = s.ListenAndServe() })
	}
	<-ctx.Done()
	return errors.Join(servers[0].Close(), servers[1].Close(), servers[2].Close())
}

// fakeAPIcast serves the products of a portal.
func fakeAPIcast(ctx context.Context, portal, data, control string) error {
	f := &fakeReader{portal: portal, client: http.DefaultClient, frugal: true}
	if seconds, err := strconv.Atoi(os.Getenv("APICAST_CONFIGURATION_CACHE")); err == nil && seconds > 0 {
		f.refresh = time.Duration(seconds) * time.Second
	}
	if err := f.run(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() { f.follow(ctx) })
	servers := []*http.Server{
		{Addr: "127.0.0.1:" + data, Handler: f}, {Addr: "127.0.0.1:" + control, Handler: f},
	}
	for _, s := range servers {
		wg.Go(func() { _ = s.ListenAndServe() })
	}
	<-ctx.Done()
	err := errors.Join(servers[0].Close(), servers[1].Close())
	wg.Wait()
	return err
}

// fakeStandalone forwards the routes of an apisix.yaml to the first node that they
// have.
func fakeStandalone(ctx context.Context, addr, rules string) error {
	text, err := os.ReadFile(rules)
	if err != nil {
		return err
	}
	var doc struct {
		Routes []struct {
			URI     string         `yaml:"uri"`
			Plugins map[string]any `yaml:"plugins"`

			Upstream   fakeNodes `yaml:"upstream"`
			UpstreamID string    `yaml:"upstream_id"`
		} `yaml:"routes"`
		Upstreams []struct {
			ID        string `yaml:"id"`
			fakeNodes `yaml:",inline"`
		} `yaml:"upstreams"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	paths := map[string]http.Handler{}
	for _, r := range doc.Routes {
		if _, bad := r.Plugins["bad"]; bad {
			return errors.New("plugin bad is bad")
		}
		nodes := r.Upstream.Nodes
		for _, u := range doc.Upstreams {
			if u.ID == r.UpstreamID {
				nodes = u.Nodes
			}
		}
		for node := range nodes {
			paths[r.URI] = httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: node})
		}
	}
	var seen sync.Map
	server := &http.Server{Addr: addr, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := paths[r.URL.Path]
		switch {
		case r.URL.Path == metricsPath:
			fmt.Fprintln(w, "# HELP some metrics")
			seen.Range(func(path, _ any) bool {
				for i := range linesPerRoute {
					fmt.Fprintf(w, "metric_%d{path=%q} 1\n", i, path)
				}
				return true
			})
		case to != nil:
			seen.Store(r.URL.Path, true)
			to.ServeHTTP(w, r)
		default:
			w.WriteHeader(404)
		}
	})}
	done := make(chan error, 1)
	go func() { done <- server.ListenAndServe() }()
	<-ctx.Done()
	return errors.Join(server.Close(), ignoreClosed(<-done))
}

type fakeNodes struct {
	Nodes map[string]int `yaml:"nodes"`
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// follow applies what is in etcd and what comes.
func follow(ctx context.Context, wg *sync.WaitGroup, f *fakeGateway, endpoints []string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	const prefix = "/apisix/"
	now, err := client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return errors.Join(err, client.Close())
	}
	for _, kv := range now.Kvs {
		if err := f.apply(strings.TrimPrefix(string(kv.Key), prefix), kv.Value); err != nil {
			return errors.Join(err, client.Close())
		}
	}
	wg.Go(func() {
		defer client.Close()
		for r := range client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(now.Header.Revision+1)) {
			for _, ev := range r.Events {
				value := ev.Kv.Value
				if ev.Type == clientv3.EventTypeDelete {
					value = nil
				}
				_ = f.apply(strings.TrimPrefix(string(ev.Kv.Key), prefix), value)
				f.applied.Store(ev.Kv.ModRevision)
				f.compiled.Add(1)
			}
		}
	})
	return nil
}

func needEtcd(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Skip("no etcd on this machine")
	}
}

// command runs `weir bench churn` with the test binary as weir.
func command(t *testing.T, args ...string) (*Report, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "report.json")
	cmd := Command()
	cmd.SilenceErrors = true
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs(append([]string{"churn", "--weir", self, "--format", "json", "--out", out}, args...))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return &r, nil
}

func TestCommandStartsAndStopsAGateway(t *testing.T) {
	t.Parallel()
	needEtcd(t)
	for _, mode := range [][]string{nil, {"--external-etcd", "--etcd-binary", etcdPath()}} {
		r, err := command(t, append(mode, "--consumers", "250", "--keys", "20", "--rps", "200",
			"--creates", "20", "--deletes", "10", "--baseline", "0", "--duration", "1s", "--cooldown", "0")...)
		if err != nil {
			t.Fatal(err)
		}
		p := r.Phases[0]
		if len(r.Phases) != 1 || p.Sent != 200 || p.OK != 200 || p.Creates.FirstRight != 20 || p.Deletes.FirstRight != 10 {
			t.Errorf("%v: %+v, creates %+v, deletes %+v", mode, p, p.Creates, p.Deletes)
		}
		if p.Usage == nil || p.Usage.RSSMiB < 1 {
			t.Errorf("%v: usage %+v", mode, p.Usage)
		}
	}
}

func TestCommandMeasuresStart(t *testing.T) {
	t.Parallel()
	needEtcd(t)
	r, err := command(t, "--start", "--start-runs", "2", "--external-etcd", "--etcd-binary", etcdPath(),
		"--routes", "150", "--keys", "2", "--deletes", "1")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Start.Seconds) != 2 || r.Start.Median <= 0 || r.Bulk.Objects != 150 {
		t.Errorf("%+v %+v", r.Start, r.Bulk)
	}
}

func TestCommandAttaches(t *testing.T) {
	t.Parallel()
	needEtcd(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m, err := newManaged(dir, self, etcdPath())
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	if err := m.start(); err != nil {
		t.Fatal(err)
	}
	store, err := openStore([]string{m.storeURL()}, "/apisix")
	if err != nil {
		t.Fatal(err)
	}
	defer store.close()
	admin := newAdminClient(m.adminURL(), m.key)
	defer admin.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := m.ready(ctx, store, admin); err != nil {
		t.Fatal(err)
	}
	theirs := []document{{key: "routes/theirs", members: `"id":"theirs","uri":"/theirs"`}}
	if err := store.put(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	r, err := command(t, "--attach", "--data", "http://"+m.dataAddr(), "--admin", m.adminURL(), "--admin-key", m.key,
		"--etcd", m.storeURL(), "--pid", fmt.Sprint(m.proc.cmd.Process.Pid), "--services", "40", "--keys", "10",
		"--rps", "100", "--creates", "6", "--deletes", "4", "--pairs", "1", "--phase", "500ms")
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Phases[1]; p.OK != 50 || p.Creates.FirstRight != 6 || p.Deletes.FirstRight != 4 || p.Usage == nil {
		t.Errorf("%+v, creates %+v, deletes %+v", p, p.Creates, p.Deletes)
	}
	left, err := store.client.Get(ctx, "/apisix/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil || len(left.Kvs) != 1 {
		t.Errorf("%d keys left, want the one that was there: %v", len(left.Kvs), err)
	}
}

func TestCommandRefuses(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--format", "xml"}, "want table, json or csv"},
		{[]string{"--rps", "0"}, "must be positive"},
		{[]string{"--consumers", "0"}, "nothing to load"},
		{[]string{"--consumers", "350"}, "--consumers 350 is too few: the load uses 300 and 100 are deleted"},
		{[]string{"--start", "--attach"}, "--start needs a gateway that the bench starts"},
		{[]string{"--pairs", "2", "--phase", "0"}, "--phase must be positive"},
		{[]string{"--attach", "--data", "nowhere"}, "want http://host:port"},
		{[]string{"--origin", busy.Addr().String()}, "address already in use"},
		{[]string{"--weir", "/bin/false"}, "last output of /bin/false"},
		{[]string{"--external-etcd", "--etcd-binary", "/nonexistent"}, "needs etcd"},
	} {
		if _, err := command(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

func etcdPath() string {
	path, _ := exec.LookPath("etcd")
	return path
}

func TestProcessUsage(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	if of := children("/proc/self"); !slices.Contains(of, child.Process.Pid) {
		t.Errorf("children %v, want %d among them", of, child.Process.Pid)
	}
	u, err := processUsage(os.Getpid())
	if err != nil || u.rss < 1<<20 {
		t.Errorf("%+v, %v", u, err)
	}
	before := u.cpu
	for sum, i := 0, 0; u.cpu < before+3*clockTick; i++ {
		if sum += i; i%1e6 == 0 {
			if u, err = processUsage(os.Getpid()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := processUsage(1 << 30); err == nil {
		t.Error("no error for a process that is not there")
	}
}
