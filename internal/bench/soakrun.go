package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/bench/reference"
)

// mostExamples bounds the differences that are told in words.
const mostExamples = 20

// run warms up, then writes, asks and samples until the time is over.
func (s *soaking) run(ctx context.Context, p *progress) error {
	for range s.opts.warm {
		if err := s.writeNext(ctx); err != nil {
			return err
		}
	}
	p.say("%d writes are in force", s.opts.warm)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	end := began.Add(s.opts.duration)
	var wg sync.WaitGroup
	for i := range s.opts.clients {
		wg.Go(func() { s.ask(ctx, uint64(i), began, end) })
	}
	var failed error
	wg.Go(func() {
		for n := 1; sleepUntil(ctx, began.Add(time.Duration(float64(n)/s.opts.writes*1e9))) && time.Now().Before(end); n++ {
			if failed = s.writeNext(ctx); failed != nil {
				cancel()
				return
			}
		}
	})
	err := s.watch(ctx, p, began)
	if err != nil {
		cancel()
	}
	wg.Wait()
	if err := errors.Join(failed, err); err != nil {
		return err
	}
	r := s.report
	r.Seconds = s.opts.duration.Seconds()
	if r.Measures, err = steady(r.Samples, r.Seconds); err != nil {
		return err
	}
	r.Passed = r.Differences == 0 && r.Errors == 0 && r.Requests > 0
	for _, m := range r.Measures {
		r.Passed = r.Passed && m.Flat
	}
	return nil
}

func (s *soaking) differs(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Differences++
	if len(s.report.Examples) < mostExamples {
		s.report.Examples = append(s.report.Examples, fmt.Sprintf(format, args...))
	}
}

// writeNext makes the next write and compares the answer of the Admin API with the
// model's.
func (s *soaking) writeNext(ctx context.Context) error {
	_, world := s.history.Now()
	op := s.gen.Next(world)
	s.count(op)
	s.history.Begin(op.Next)
	defer s.history.Acknowledge()
	if op.Direct {
		res, err := s.store.client.Put(ctx, s.store.prefix+op.Key, op.Body)
		if err != nil {
			return err
		}
		return s.await(ctx, res.Header.Revision)
	}
	method := http.MethodPut
	if op.Body == "" {
		method = http.MethodDelete
	}
	got, err := s.admin.ask(ctx, method, op.Key, op.Body)
	if err != nil {
		return err
	}
	if got.status != op.Status && (op.Status != 200 || got.status != 201) {
		s.differs("%s %s %s: answered %d %.200s, want %d", method, op.Key, op.Body, got.status, strings.TrimSpace(got.text), op.Status)
	}
	if !got.late {
		return nil
	}
	s.mu.Lock()
	s.report.Late++
	s.mu.Unlock()
	res, err := s.store.client.Get(ctx, s.store.prefix+op.Key)
	if err != nil {
		return err
	}
	return s.await(ctx, res.Header.Revision)
}

func (s *soaking) count(op reference.Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what, _, _ := strings.Cut(op.Key, "/")
	if strings.Contains(op.Key, "/credentials/") {
		what = "credentials"
	}
	switch {
	case op.Direct:
		what += ", broken in etcd"
	case op.Body == "":
		what += ", deleted"
	}
	s.report.Writes[what]++
	if op.Status != 200 {
		s.report.Refused++
	}
}

// await waits until a revision is live.
func (s *soaking) await(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	for {
		var r struct {
			Applied int64 `json:"applied"`
		}
		if err := s.control(ctx, "GET", "revision", &r); err != nil {
			return err
		}
		if r.Applied >= revision {
			return nil
		}
		if !sleepUntil(ctx, time.Now().Add(2*time.Millisecond)) {
			return fmt.Errorf("revision %d is not live, %d is", revision, r.Applied)
		}
	}
}

// control asks the Control API.
func (s *soaking) control(ctx context.Context, method, path string, to any) error {
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d/v1/%s", s.m.ports.control, path), nil)
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if to == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(to)
}

// ask sends requests and compares their answers with the model's.
func (s *soaking) ask(ctx context.Context, client uint64, began, end time.Time) {
	rng := rand.New(rand.NewPCG(s.opts.seed, 100+client))
	every := float64(s.opts.clients) / s.opts.rps * 1e9
	for n := 1; sleepUntil(ctx, began.Add(time.Duration(float64(n)*every))) && time.Now().Before(end); n++ {
		since, world := s.history.Now()
		route, key := s.gen.Route(rng), s.gen.APIKey(rng, world)
		got, err := s.request(ctx, reference.Path(route), key)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		s.report.Requests++
		if err != nil {
			s.report.Errors++
		} else {
			s.report.Status[got.Status]++
		}
		s.mu.Unlock()
		if err != nil {
			continue
		}
		if ok, want := s.history.Allows(since, route, key, got); !ok {
			s.differs("%s with key %q: answered %v, want %v", route, key, got, want)
		}
	}
}

func (s *soaking) request(ctx context.Context, path, key string) (a reference.Answer, err error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.m.dataAddr()+path, nil)
	if err != nil {
		return a, err
	}
	if key != "" {
		req.Header.Set("apikey", key)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return a, err
	}
	a = reference.Answer{Status: resp.StatusCode, Mark: resp.Header.Get(reference.MarkHeader), Globals: map[string]string{}}
	a.Node, _ = strconv.Atoi(resp.Header.Get(reference.NodeHeader)) // none is node 0
	if resp.Header.Get(reference.DefaultLimitHeader) != "" {
		a.Limit = reference.DefaultLimitHeader
	}
	for name := range resp.Header {
		switch {
		case strings.HasPrefix(name, "X-Soak-Global-"):
			a.Globals[name] = resp.Header.Get(name)
		case strings.HasPrefix(name, "X-Soak-Limit-"):
			a.Limit += name
		}
	}
	return a, nil
}

// watch samples what the gateway holds and tells how the run stands.
func (s *soaking) watch(ctx context.Context, p *progress, began time.Time) error {
	every, told := max(s.opts.duration/120, time.Second), 0
	for at := every; at <= s.opts.duration; at += every {
		if !sleepUntil(ctx, began.Add(at)) {
			return ctx.Err()
		}
		now, err := s.sample(ctx)
		if err != nil {
			return err
		}
		now.At = at.Seconds()
		s.mu.Lock()
		s.report.Samples = append(s.report.Samples, now)
		requests, differences := s.report.Requests, s.report.Differences
		examples := s.report.Examples[told:]
		s.mu.Unlock()
		for _, e := range examples {
			p.say("%s", e)
		}
		told += len(examples)
		p.update(at.Round(time.Second), at+every > s.opts.duration, "%5.0f/%.0f s  %d requests  %d differences  resident %.1f MiB  heap %.1f MiB  %.0f goroutines  %.0f descriptors",
			at.Seconds(), s.opts.duration.Seconds(), requests, differences, now.RSS, now.Heap, now.Goroutines, now.Descriptors)
	}
	return nil
}

func (s *soaking) sample(ctx context.Context) (out holding, err error) {
	if err := s.control(ctx, "POST", "gc", nil); err != nil {
		return out, err
	}
	var held struct {
		Goroutines float64 `json:"goroutines"`
		Live       int64   `json:"heap_live_bytes"`
	}
	if err := s.control(ctx, "GET", "process", &held); err != nil {
		return out, err
	}
	pid := s.m.proc.cmd.Process.Pid
	u, err := processUsage(pid)
	if err != nil {
		return out, err
	}
	fds, err := descriptors(pid)
	return holding{RSS: mib(u.rss), Heap: mib(held.Live), Goroutines: held.Goroutines, Descriptors: float64(fds)}, err
}
