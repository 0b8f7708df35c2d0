package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"weir/internal/bench/load"
)

// churnManaged measures a Weir that it starts and stops.
func churnManaged(ctx context.Context, o *churnOptions, pops []population, progress *progress) (*Report, error) {
	weir, etcd, err := o.binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	server, err := serveOrigin(o)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	m, err := newManaged(dir, weir, etcd)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if err := m.start(); err != nil {
		return nil, err
	}
	store, err := openStore([]string{m.storeURL()}, "/apisix")
	if err != nil {
		return nil, err
	}
	defer store.close()
	admin := newAdminClient(m.adminURL(), m.key)
	defer admin.http.CloseIdleConnections()
	readyCtx, cancel := context.WithTimeout(ctx, o.ready)
	defer cancel()
	if err := m.ready(readyCtx, store, admin); err != nil {
		return nil, err
	}
	e := &experiment{
		opts: o, pops: pops, phases: phases(o), progress: progress,
		origin: origin{addr: server.Addr().String(), seed: o.seed},
		subject: &subject{
			name: weir, dial: tcpDialer(m.dataAddr()), admin: admin, store: store, keys: store, other: store.beside(),
			usage: func() (usage, error) { return processUsage(m.proc.cmd.Process.Pid) },
		},
	}
	var report *Report
	if o.start {
		report, err = e.measureStart(ctx, m)
	} else {
		report, err = e.run(ctx)
	}
	if err != nil {
		return nil, m.proc.explain(err)
	}
	return report, nil
}

// binaries are the programs to start; etcd is empty for the embedded store.
func (o *churnOptions) binaries() (weir, etcd string, err error) {
	if weir = o.weir; weir == "" {
		if weir, err = os.Executable(); err != nil {
			return "", "", err
		}
	}
	// The gateway runs in a directory of its own.
	if weir, err = filepath.Abs(weir); err != nil {
		return "", "", err
	}
	if !o.externalEtcd {
		return weir, "", nil
	}
	if _, err := os.Stat(o.etcdPath); err != nil {
		return "", "", fmt.Errorf("--external-etcd needs etcd (apt-get install etcd-server): %w", err)
	}
	return weir, o.etcdPath, nil
}

// churnAttached measures a running gateway and removes what it wrote.
func churnAttached(ctx context.Context, o *churnOptions, pops []population, progress *progress) (report *Report, err error) {
	addr, err := hostPort(o.attached.data)
	if err != nil {
		return nil, fmt.Errorf("--data %s: %w", o.attached.data, err)
	}
	server, err := serveOrigin(o)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	store, err := openStore(o.attached.etcd, o.attached.prefix)
	if err != nil {
		return nil, err
	}
	defer store.close()
	readyCtx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := store.ready(readyCtx); err != nil {
		return nil, err
	}
	admin := newAdminClient(o.attached.admin, o.attached.adminKey)
	defer admin.http.CloseIdleConnections()
	if err := admin.call(ctx, "GET", "routes", ""); err != nil {
		return nil, fmt.Errorf("the Admin API at %s: %w", o.attached.admin, err)
	}
	s := &subject{name: "gateway at " + addr, dial: tcpDialer(addr), admin: admin, store: store, keys: store, other: store.beside()}
	if o.attached.pid > 0 {
		s.usage = func() (usage, error) { return processUsage(o.attached.pid) }
		if _, err := s.usage(); err != nil {
			return nil, fmt.Errorf("--pid %d: %w", o.attached.pid, err)
		}
	}
	if !o.attached.keep {
		defer func() {
			// Also after an interrupt, which has ended ctx.
			cleanCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			if cleanErr := store.removeAll(cleanCtx); err == nil {
				err = cleanErr
			}
		}()
	}
	e := &experiment{
		opts: o, pops: pops, phases: phases(o), progress: progress, subject: s,
		origin: origin{addr: server.Addr().String(), seed: o.seed},
	}
	return e.run(ctx)
}

func serveOrigin(o *churnOptions) (*load.Origin, error) {
	ln, err := net.Listen("tcp", o.originAddr)
	if err != nil {
		return nil, fmt.Errorf("--origin %s: %w", o.originAddr, err)
	}
	return load.ServeOrigin(ln), nil
}

// measureStart loads everything, then stops and starts the gateway several
// times and takes the time from exec to the first authenticated 200.
func (e *experiment) measureStart(ctx context.Context, m *managed) (*Report, error) {
	report := newReport(e)
	began := time.Now()
	if err := e.bulkLoad(ctx); err != nil {
		return nil, err
	}
	report.Bulk.Seconds = time.Since(began).Seconds()
	if err := e.awaitAll(ctx); err != nil {
		return nil, err
	}
	report.Bulk.VisibleSeconds = time.Since(began).Seconds()
	// The last object: a gateway that answers before it has read everything is
	// not given credit for the part it has read.
	last := e.pops[0]
	request := last.request(e.origin, last.count-1)
	report.Start = &StartReport{}
	for run := range e.opts.startRuns {
		m.proc.stop()
		began := time.Now()
		if err := m.start(); err != nil {
			return nil, err
		}
		waitCtx, cancel := context.WithTimeout(ctx, e.opts.ready)
		client := &load.Client{Dial: e.subject.dial}
		err := awaitOK(waitCtx, client, request)
		took := time.Since(began)
		client.Close()
		cancel()
		if err != nil {
			return nil, err
		}
		report.Start.Seconds = append(report.Start.Seconds, took.Seconds())
		e.progress.say("start %d: %.3f s", run+1, took.Seconds())
	}
	report.Start.Median = median(report.Start.Seconds)
	return report, nil
}
