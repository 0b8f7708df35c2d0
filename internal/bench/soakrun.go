package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	var state struct {
		Checked any `json:"checked"`
	}
	r := s.report
	state.Checked = &r.Checked
	if err := s.control(ctx, "GET", "revision", &state); err != nil {
		return err
	}
	r.Seconds = s.opts.duration.Seconds()
	if r.Measures, err = steady(r.Samples, r.Seconds); err != nil {
		return err
	}
	r.Passed = r.Differences == 0 && r.Errors == 0 && r.Requests > 0 && len(r.Checked.Drift) == 0
	for _, m := range r.Measures {
		r.Passed = r.Passed && m.Flat
	}
	return nil
}

func (s *soaking) differs(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Differences++
	s.example(format, args...)
}

// example tells a difference in words; s.mu is held.
func (s *soaking) example(format string, args ...any) {
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
		revision, err := s.writeDirect(ctx, op)
		if err != nil {
			return err
		}
		return s.await(ctx, revision)
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
		s.differs("%s %s %.300s: answered %d %.200s, want %d", method, op.Key, op.Body, got.status, strings.TrimSpace(got.text), op.Status)
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

// writeDirect writes into the store, past the Admin API.
func (s *soaking) writeDirect(ctx context.Context, op reference.Op) (revision int64, err error) {
	if op.Body == "" {
		res, err := s.store.client.Delete(ctx, s.store.prefix+op.Key)
		if err != nil {
			return 0, err
		}
		return res.Header.Revision, nil
	}
	res, err := s.store.client.Put(ctx, s.store.prefix+op.Key, op.Body)
	if err != nil {
		return 0, err
	}
	return res.Header.Revision, nil
}

func (s *soaking) count(op reference.Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := reference.Kind(op.Key)
	switch {
	case op.Body == "":
		what += ", deleted"
	case op.Direct && op.Next[op.Key].Broken:
		what += ", broken in etcd"
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
