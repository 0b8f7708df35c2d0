package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/bench/load"
	"weir/internal/bench/tenant"
)

// measureReload plays the account, starts gateways or waits for one, and measures.
func measureReload(ctx context.Context, o *reloadOptions, progress *progress) (*ReloadReport, error) {
	changes, err := o.changes()
	if err != nil {
		return nil, err
	}
	weir, err := binaryPath(o.weir)
	if err != nil {
		return nil, err
	}
	var lns [3]net.Listener
	for i, flag := range [...]struct{ name, addr string }{{"origin", o.originAddr}, {"backend-listen", o.backendAddr}, {"portal-listen", o.portalAddr}} {
		if lns[i], err = net.Listen("tcp", flag.addr); err != nil {
			return nil, fmt.Errorf("--%s %s: %w", flag.name, flag.addr, err)
		}
		defer lns[i].Close()
	}
	origin := load.ServeOrigin(lns[0])
	defer origin.Close()
	catalog := tenant.NewCatalog(tenant.Config{
		Products: o.products, Upstream: "http://" + origin.Addr().String(),
		Backend: "http://" + lns[1].Addr().String(), Batcher: o.batcher,
	})
	r := &reloading{
		opts: o, changes: changes, catalog: catalog, progress: progress,
		portal: tenant.NewPortal(catalog), backend: tenant.NewBackend(catalog),
	}
	defer serveHTTP(lns[1], r.backend)()
	defer serveHTTP(lns[2], r.portal)()
	name := weir
	endpoint := fmt.Sprintf("http://%s@%s", tenant.PortalToken, lns[2].Addr())
	if o.attach != "" {
		name = "gateway at " + o.attach
		r.start, err = r.attached(endpoint)
	} else {
		dir, mkErr := os.MkdirTemp("", "weir-bench-")
		if mkErr != nil {
			return nil, mkErr
		}
		defer os.RemoveAll(dir)
		r.start = func(ctx context.Context, refresh bool) (*reader, error) {
			return startReader(ctx, o, weir, dir, endpoint, refresh)
		}
	}
	if err != nil {
		return nil, err
	}
	outcomes, err := r.run(ctx)
	if err != nil {
		return nil, err
	}
	return newReloadReport(o, name, changes, outcomes), nil
}

// serveHTTP serves on ln until the function that it returns is called.
func serveHTTP(ln net.Listener, h http.Handler) (stop func()) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: requestTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln) // ends with Close
	}()
	return func() {
		_ = server.Close()
		<-done
	}
}

// environment is what APIcast's configuration consists of here.
func (o *reloadOptions) environment(endpoint string, refresh bool) []string {
	seconds := -1
	if refresh {
		seconds = int(o.refresh / time.Second)
	}
	return []string{
		"THREESCALE_PORTAL_ENDPOINT=" + endpoint,
		"THREESCALE_DEPLOYMENT_ENV=production",
		"APICAST_CONFIGURATION_LOADER=boot",
		fmt.Sprintf("APICAST_CONFIGURATION_CACHE=%d", seconds),
	}
}

// readerConfig gives the gateway a Control API, which tells what was compiled. It
// has an address for APISIX's routes, too, of which there are none.
const readerConfig = `# written by weir bench
apisix:
  node_listen:
    - ip: 127.0.0.1
      port: %d
  enable_admin: false
  enable_ipv6: false
  control:
    ip: 127.0.0.1
    port: %d
  ssl:
    enable: false
plugin_attr:
  prometheus:
    enable_export_server: false
deployment:
  role: data_plane
  role_data_plane:
    config_provider: yaml
`

// startReader runs a gateway on free ports and waits until it answers.
func startReader(ctx context.Context, o *reloadOptions, weir, dir, endpoint string, refresh bool) (*reader, error) {
	free, err := freePorts(5)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, readerConfig, free[3], free[4]), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "apisix.yaml"), []byte("routes: []\n#END\n"), 0o600); err != nil {
		return nil, err
	}
	env := append(o.environment(endpoint, refresh),
		fmt.Sprintf("APICAST_HTTP_PORT=%d", free[0]),
		fmt.Sprintf("APICAST_MANAGEMENT_PORT=%d", free[1]),
		fmt.Sprintf("APICAST_METRICS_PORT=%d", free[2]),
		"APICAST_ACCESS_LOG_FILE="+os.DevNull)
	p, err := startWith(env, filepath.Join(dir, "weir.log"), weir, "run", "-c", config)
	if err != nil {
		return nil, err
	}
	pid := p.cmd.Process.Pid
	r := &reader{
		dial: tcpDialer(fmt.Sprintf("127.0.0.1:%d", free[0])), explain: p.explain, stop: p.stop,
		usage:    func() (usage, error) { return processUsage(pid) },
		cpu:      func() (time.Duration, error) { return cpuTime(pid) },
		compiled: compiledAt(fmt.Sprintf("http://127.0.0.1:%d", free[4])),
	}
	ctx, cancel := context.WithTimeout(ctx, o.ready)
	defer cancel()
	defer context.AfterFunc(p.ended, cancel)()
	if err := answers(ctx, r.dial); err != nil {
		p.stop()
		return nil, p.explain(fmt.Errorf("the gateway is not ready: %w", err))
	}
	return r, nil
}

// answers waits until a gateway answers anything.
func answers(ctx context.Context, dial dialer) error {
	client := &load.Client{Dial: dial}
	defer client.Close()
	for {
		_, err := client.Ask(ctx, []byte("GET / HTTP/1.1\r\nHost: bench.test\r\n\r\n"), time.Second)
		if err == nil {
			return nil
		}
		if !sleepUntil(ctx, time.Now().Add(5*time.Millisecond)) {
			return err
		}
	}
}

// attached waits for the gateway of --attach; every phase measures the same one.
func (r *reloading) attached(endpoint string) (func(context.Context, bool) (*reader, error), error) {
	o := r.opts
	addr, err := hostPort(o.attach)
	if err != nil {
		return nil, fmt.Errorf("--attach %s: %w", o.attach, err)
	}
	g := &reader{dial: tcpDialer(addr), stop: func() {}}
	if o.pid > 0 {
		g.usage = func() (usage, error) { return processUsage(o.pid) }
		if _, err := g.usage(); err != nil {
			return nil, fmt.Errorf("--pid %d: %w", o.pid, err)
		}
		g.cpu = func() (time.Duration, error) {
			u, err := g.usage()
			return u.cpu, err
		}
	}
	if o.control != "" {
		g.compiled = compiledAt(o.control)
	}
	r.progress.say("the gateway at %s needs %s", addr, strings.Join(o.environment(endpoint, true), " "))
	return func(ctx context.Context, _ bool) (*reader, error) {
		ctx, cancel := context.WithTimeout(ctx, o.ready)
		defer cancel()
		for r.portal.Shown() == nil {
			if !sleepUntil(ctx, time.Now().Add(50*time.Millisecond)) {
				return nil, fmt.Errorf("the gateway at %s has not read the portal: %w", addr, ctx.Err())
			}
		}
		if err := answers(ctx, g.dial); err != nil {
			return nil, fmt.Errorf("the gateway at %s is not ready: %w", addr, err)
		}
		return g, nil
	}, nil
}

// compiledAt asks Weir's Control API how many products were compiled.
func compiledAt(control string) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(control, "/")+"/v1/revision", nil)
		if err != nil {
			return 0, err
		}
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, fmt.Errorf("the Control API: %w", err)
		}
		defer resp.Body.Close()
		var revision struct {
			Compiled map[string]int64 `json:"compiled"`
		}
		if err := json.NewDecoder(resp.Body).Decode(&revision); err != nil {
			return 0, fmt.Errorf("the Control API at %s: %w", control, err)
		}
		if revision.Compiled == nil {
			return 0, errors.New("the Control API shows no compiled objects")
		}
		return revision.Compiled["products"], nil
	}
}
