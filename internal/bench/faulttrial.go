package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir/internal/bench/load"
)

const (
	faultWriters  = 4
	faultObjects  = 40 // written in turn, by all writers together
	faultPause    = 30 * time.Millisecond
	steadyRoutes  = 20
	writeTimeout  = 3 * time.Second
	versionHeader = "X-Version"
	recoveryTime  = time.Minute // in which all has to be well again
)

// A trial is one gateway with its store, load and writers, to which a scenario does
// something.
type trial struct {
	opts    *faultOptions
	dir     string
	gateway *managed
	cluster *cluster // nil: embedded store
	store   *etcdStore
	admin   *adminClient
	origin  *load.Origin
	gen     *load.Generator
	ledger  *ledger
	http    *http.Client
	rng     *rand.Rand
	result  *FaultResult
	mended  time.Time // when the fault ended

	mu sync.Mutex // of result while writers run

	stopLoad, stopWriters func() // they wait
}

// try runs one scenario.
func (o *faultOptions) try(ctx context.Context, s scenario, weir string, ready time.Duration, p *progress) (r FaultResult) {
	r.Name = s.name
	if s.needs != nil {
		if err := s.needs(o); err != nil {
			r.Skipped = err.Error()
			return r
		}
	}
	dir, err := os.MkdirTemp("", "weir-faults-")
	if err != nil {
		r.Problem = err.Error()
		return r
	}
	defer os.RemoveAll(dir)
	t := &trial{
		opts: o, dir: dir, ledger: newLedger(), rng: rand.New(rand.NewPCG(o.seed, 0)), result: &r,
		http:     &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: faultWriters}},
		stopLoad: func() {}, stopWriters: func() {},
	}
	defer t.close()
	began := time.Now()
	err = t.open(ctx, s, weir, ready)
	if err == nil {
		t.begin(ctx)
		err = t.perform(ctx, s)
	}
	if err != nil {
		if t.gateway != nil && t.gateway.proc != nil {
			err = t.gateway.proc.explain(err)
		}
		r.Problem = err.Error()
	}
	r.Seconds = time.Since(began).Seconds()
	return r
}

// open starts everything and stores what the load asks for.
func (t *trial) open(ctx context.Context, s scenario, weir string, ready time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t.origin = load.ServeOrigin(ln)
	free, err := freePorts(5)
	if err != nil {
		return err
	}
	t.gateway = &managed{
		weir: weir, dir: t.dir, config: filepath.Join(t.dir, "config.yaml"), key: apiKey(uint64(os.Getpid()), 0),
		ports: ports{data: free[0], admin: free[1], store: free[2], peer: free[3], control: free[4]},
	}
	if err := t.openStore(ctx, s); err != nil {
		return err
	}
	if err := t.gateway.start(); err != nil {
		return err
	}
	t.admin = newAdminClient(t.gateway.adminURL(), t.gateway.key)
	if err := t.gateway.ready(ctx, t.store, t.admin); err != nil {
		return err
	}
	return t.admin.create(ctx, t.steady())
}

// openStore starts the cluster, if it is to be one, and configures the gateway for
// its store.
func (t *trial) openStore(ctx context.Context, s scenario) (err error) {
	if s.disk != nil {
		if err := s.disk(t); err != nil {
			return err
		}
	}
	if !s.external {
		if t.store, err = openStore([]string{t.gateway.storeURL()}, "/apisix"); err != nil {
			return err
		}
		return t.configure("", "")
	}
	if err := t.openCluster(ctx, s); err != nil {
		return err
	}
	user, password := "", ""
	if s.guarded {
		user, password = "weir", "first"
		if err := t.guardStore(ctx); err != nil {
			return err
		}
	}
	t.store = &etcdStore{client: t.cluster.client, prefix: "/apisix/"}
	return t.configure(user, password)
}

func (t *trial) openCluster(ctx context.Context, s scenario) (err error) {
	c := &cluster{etcd: t.opts.etcdPath, dir: t.dir, disk: t.dir}
	t.cluster = c
	if s.disk != nil {
		c.disk = t.dataDir()
	}
	if s.apart {
		if c.net, err = newNamespace(); err != nil {
			return err
		}
	}
	if s.secure {
		if c.certs, err = newCertificates(t.dir); err != nil {
			return err
		}
	}
	return c.begin(ctx, 3)
}

// dataDir is where the gateway keeps its data.
func (t *trial) dataDir() string { return filepath.Join(t.dir, "data") }

// configure writes the gateway's configuration.
func (t *trial) configure(user, password string) error {
	g, members := t.gateway, noTLS
	secure := t.cluster != nil && t.cluster.certs != nil
	if secure {
		members += "    ssl_trusted_certificate: " + t.cluster.certs.roots() + "\n"
	}
	text := fmt.Sprintf(configTemplate, g.ports.data, g.ports.control, members, g.key, g.ports.admin)
	if user != "" { // another gateway will take over
		text = strings.Replace(text, "apisix:\n", "apisix:\n  enable_reuseport: true\n", 1)
	}
	if t.cluster != nil {
		text += "  etcd:\n    host:\n"
		for _, e := range t.cluster.endpoints() {
			text += "      - " + e + "\n"
		}
		text += "    prefix: /apisix\n"
		if user != "" {
			text += fmt.Sprintf("    user: %s\n    password: %s\n", user, password)
		}
		if secure {
			pair := t.cluster.certs.file(ofGateway)
			text += fmt.Sprintf("    tls: {verify: true, cert: %s, key: %s}\n", pair, pair)
		}
	} else {
		text += fmt.Sprintf(embeddedTemplate, t.dataDir(), g.ports.store)
	}
	return os.WriteFile(g.config, []byte(text), 0o600)
}

// steady are the objects that the load asks for: routes, and one with consumers.
func (t *trial) steady() []document {
	o := origin{addr: t.origin.Addr().String(), seed: t.opts.seed}
	docs := []document{consumerRoute(o)}
	for i := range steadyRoutes {
		docs = append(docs, route(o, i)...)
		docs = append(docs, consumer(o, i)...)
	}
	return docs
}

// begin starts load and writers.
func (t *trial) begin(ctx context.Context) {
	o := origin{addr: t.origin.Addr().String(), seed: t.opts.seed}
	var requests [][]byte
	for i := range steadyRoutes {
		requests = append(requests, []byte(pathRequest("routes")(o, i)), []byte(consumerRequest(o, i)))
	}
	t.gen = load.New(load.Config{
		Dial:    tcpDialer(t.gateway.dataAddr()),
		Request: func(n int) []byte { return requests[n%len(requests)] },
		Rate:    t.opts.rps, Conns: 16, Timeout: 5 * time.Second,
		Start: time.Now().Add(500 * time.Millisecond), Phases: []time.Duration{24 * time.Hour},
	})
	t.stopLoad = background(ctx, func(ctx context.Context) { t.gen.Run(ctx) })
	t.stopWriters = background(ctx, t.write)
}

// background runs f until stop is called, which waits for it and may be called again.
func background(ctx context.Context, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	return func() { cancel(); <-done }
}

// perform lets the fault happen and judges what is left.
func (t *trial) perform(ctx context.Context, s scenario) error {
	if err := t.pause(ctx, 2*time.Second); err != nil {
		return err
	}
	if err := s.run(ctx, t); err != nil {
		return err
	}
	if t.mended.IsZero() {
		t.mended = time.Now()
	}
	if err := t.recover(ctx); err != nil {
		return err
	}
	if err := t.pause(ctx, time.Second); err != nil {
		return err
	}
	t.stopWriters()
	if err := t.judge(ctx); err != nil {
		return err
	}
	t.stopLoad()
	stats := t.gen.Snapshot(0)
	other := 0
	for class, n := range stats.Status {
		if class != 2 {
			other += int(n)
		}
	}
	r := t.result
	r.Sent, r.Failed = stats.Sent, other
	if broken := int(stats.Errors) + int(stats.Timeouts); s.dies {
		r.Interrupted = broken
	} else {
		r.Failed += broken
	}
	r.StallMS, r.P99MS = ms(stats.Stall), ms(stats.Latency.Quantile(.99))
	r.Writes, r.Acknowledged = t.ledger.counts()
	return nil
}

func (t *trial) pause(ctx context.Context, d time.Duration) error {
	if !sleepUntil(ctx, time.Now().Add(d)) {
		return ctx.Err()
	}
	return nil
}

func (t *trial) note(format string, args ...any) {
	t.result.Notes = append(t.result.Notes, fmt.Sprintf(format, args...))
}

// write writes until ctx ends, every writer objects of its own.
func (t *trial) write(ctx context.Context) {
	var wg sync.WaitGroup
	for w := range faultWriters {
		rng := rand.New(rand.NewPCG(t.opts.seed, uint64(w)+1))
		wg.Go(func() {
			for ctx.Err() == nil {
				i := rng.IntN(faultObjects/faultWriters)*faultWriters + w
				// A write that has begun is finished: an end of its own making is no fault.
				t.writeOne(context.WithoutCancel(ctx), faultKey(i), rng.IntN(5) == 0)
				sleepUntil(ctx, time.Now().Add(faultPause))
			}
		})
	}
	wg.Wait()
}

func faultKey(i int) string { return fmt.Sprintf("routes/bench_faults_%d", i) }

// faultPath is the path of the route with that key.
func faultPath(key string) string { return "/bench/faults/" + strings.TrimPrefix(key, "routes/") }

func (t *trial) faultDocument(key string, v version) document {
	return document{key: key, members: fmt.Sprintf(`"id":%q,"uri":%q,"plugins":{"response-rewrite":{"headers":{"set":{%q:"%d"}}}},"upstream":{%s}`,
		strings.TrimPrefix(key, "routes/"), faultPath(key), versionHeader, v.n, nodes(origin{addr: t.origin.Addr().String()}))}
}

// writeOne changes one object and, if that is acknowledged as live, looks at once.
func (t *trial) writeOne(ctx context.Context, key string, remove bool) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	v := t.ledger.begin(key, remove)
	method, body := "PUT", "{"+t.faultDocument(key, v).members+"}"
	if remove {
		method, body = "DELETE", ""
	}
	got, err := t.admin.ask(ctx, method, key, body)
	switch {
	case err != nil || got.status >= 500:
		return // it may have been carried out
	case got.status/100 == 2, remove && got.status == 404:
		t.ledger.acknowledge(key, v)
	default:
		t.ledger.refuse(key, v)
		t.mu.Lock()
		t.note("%s %s was answered %d %.100s", method, key, got.status, got.text)
		t.mu.Unlock()
		return
	}
	if got.late || got.status == 404 {
		return
	}
	if seen, err := t.look(ctx, key); err == nil && t.ledger.judge(key, seen) != holds {
		t.mu.Lock()
		t.result.Stale++
		t.note("%s: %+v was acknowledged, the next request saw %+v", key, v, seen)
		t.mu.Unlock()
	}
}

// look asks the data plane for an object.
func (t *trial) look(ctx context.Context, key string) (version, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+t.gateway.dataAddr()+faultPath(key), nil)
	if err != nil {
		return version{}, err
	}
	resp, err := t.http.Do(req)
	if err != nil {
		return version{}, err
	}
	_ = resp.Body.Close()
	if resp.StatusCode == 404 {
		return version{gone: true}, nil
	}
	n, err := strconv.Atoi(resp.Header.Get(versionHeader))
	if resp.StatusCode != 200 || err != nil {
		return version{}, fmt.Errorf("%s: status %d, version %q", key, resp.StatusCode, resp.Header.Get(versionHeader))
	}
	return version{n: n}, nil
}

// stored are the numbers that the objects have in the store.
func (t *trial) stored(ctx context.Context) (map[string]int, error) {
	res, err := t.store.client.Get(ctx, t.store.prefix+"routes/bench_faults_", clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	for _, kv := range res.Kvs {
		var doc struct {
			Plugins struct {
				Rewrite struct {
					Headers struct{ Set map[string]string }
				} `json:"response-rewrite"`
			}
		}
		if err := json.Unmarshal(kv.Value, &doc); err != nil {
			return nil, fmt.Errorf("%s: %w", kv.Key, err)
		}
		n, err := strconv.Atoi(doc.Plugins.Rewrite.Headers.Set[versionHeader])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kv.Key, err)
		}
		all[strings.TrimPrefix(string(kv.Key), t.store.prefix)] = n
	}
	return all, nil
}

// recover waits until a write is live at once.
func (t *trial) recover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryTime)
	defer cancel()
	o := origin{addr: t.origin.Addr().String()}
	for {
		d := route(o, steadyRoutes)[0]
		try, stop := context.WithTimeout(ctx, writeTimeout)
		got, err := t.admin.ask(try, "PUT", d.key, "{"+d.members+"}")
		stop()
		if err == nil && got.status/100 == 2 && !got.late {
			if t.result.Recovery == 0 {
				t.result.Recovery = time.Since(t.mended).Seconds()
			}
			return nil
		}
		if !sleepUntil(ctx, time.Now().Add(20*time.Millisecond)) {
			return fmt.Errorf("writes do not work again after %v: %d %.200s: %w", recoveryTime, got.status, got.text, errors.Join(err, ctx.Err()))
		}
	}
}

// judge compares every object with what was acknowledged and with the store.
func (t *trial) judge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryTime)
	defer cancel()
	stored, err := t.stored(ctx)
	if err != nil {
		return fmt.Errorf("the store does not answer: %w", err)
	}
	for _, key := range t.ledger.keys() {
		n, there := stored[key]
		if j := t.ledger.judge(key, version{n: n, gone: !there}); j != holds {
			t.result.Lost++
			t.note("%s: the store has %d (there: %v), which is not what was acknowledged", key, n, there)
		}
		seen, err := t.look(ctx, key)
		if err != nil {
			t.note("%v", err)
		}
		if err != nil || seen.gone == there || there && seen.n != n {
			t.result.Differs++
			t.note("%s: %+v runs, the store has %d (there: %v)", key, seen, n, there)
		}
	}
	return nil
}

func (t *trial) close() {
	t.stopWriters()
	t.stopLoad()
	if t.gateway != nil && t.gateway.proc != nil {
		t.gateway.proc.stop()
	}
	if t.cluster != nil {
		t.cluster.close()
	}
	if t.store != nil && t.cluster == nil {
		_ = t.store.close()
	}
	if t.origin != nil {
		t.origin.Close()
	}
	if t.admin != nil {
		t.admin.http.CloseIdleConnections()
	}
	t.http.CloseIdleConnections()
	t.unmount()
	t.keepLogs()
}

// keepLogs copies the logs to where --logs says.
func (t *trial) keepLogs() {
	if t.opts.keep == "" {
		return
	}
	logs, _ := filepath.Glob(filepath.Join(t.dir, "*.log"))
	for _, from := range logs {
		if text, err := os.ReadFile(from); err == nil {
			to := filepath.Join(t.opts.keep, t.result.Name+"-"+filepath.Base(from))
			_ = os.WriteFile(to, text, 0o600) // without logs the report still stands
		}
	}
}
