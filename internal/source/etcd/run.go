package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir/internal/model"
)

// The reasons for which a session ends other than errors of the client.
var (
	errCompacted = errors.New("the events since the last delivery are compacted")
	errRestored  = errors.New("the store is not the one that was delivered from: restored or replaced")
	errLost      = errors.New("events are missing")
	errSilent    = errors.New("the watch is silent")
	errIdle      = errors.New("nothing has changed for long")
	errDead      = errors.New("the connection does not answer")
)

// applyError carries the receiver's own error out of a session.
type applyError struct{ error }

// Run delivers the configuration until ctx ends, and then returns nil: first
// the whole state (or the difference to what was assumed), then every change.
// What comes while apply runs is delivered together in the next call; nothing
// waits for more. Run connects and reconnects by itself; it resumes after the
// last delivered revision, and where that is not possible delivers the
// difference to a full read. A step without changes tells of a new revision.
// The revision falls only when a store was restored from a backup. An error of
// apply ends Run with that error.
func (s *Store) Run(ctx context.Context, apply func(model.Delta) error) error {
	v := newView(0)
	v.stale = ReasonStart
	for _, o := range s.assumed {
		v.set(change{path: o.Key.String(), object: o})
	}
	var read time.Time // when the whole store was read last
	for failures := 0; ; {
		began := s.cfg.Now()
		resync := v.stale != ""
		err := s.session(ctx, v, apply)
		if errors.Is(err, errIdle) && ctx.Err() == nil {
			continue
		}
		s.status.update(func(st *Status) { st.Connected = false })
		if ctx.Err() != nil {
			return nil
		}
		var refused applyError
		if errors.As(err, &refused) {
			return refused.error
		}
		if resync && v.stale == "" {
			read = began
		}
		wait, least := s.after(err, v, &failures, s.cfg.Now().Sub(began)), s.retries[1]
		if v.stale != "" && !read.IsZero() {
			least = max(least, s.jitter(s.cfg.ResyncDelay)-s.cfg.Now().Sub(read))
			wait = max(wait, least)
		}
		s.status.update(func(st *Status) { st.LastError = err.Error() })
		s.cfg.Log.Warn("store: watch ended", "err", err, "delivered", v.rev, "retry_in", wait)
		if !s.rest(ctx, wait, least) {
			return nil
		}
	}
}

// rest waits for wait, or from least on until an operation shows that the store is
// there again: what was written then is not live until it is watched. It is false
// if ctx ended.
func (s *Store) rest(ctx context.Context, wait, least time.Duration) bool {
	if wait <= least {
		return sleep(ctx, wait)
	}
	select { // what an operation has shown before this failure is no news
	case <-s.answered:
	default:
	}
	if !sleep(ctx, least) {
		return false
	}
	timer := time.NewTimer(wait - least)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-s.answered:
	case <-timer.C:
	}
	return true
}

// after decides how to go on after a session that ended with err: whether the
// whole store must be read, and how long to wait before.
func (s *Store) after(err error, v *view, failures *int, lived time.Duration) time.Duration {
	for reason, cause := range map[string]error{
		ReasonCompacted: errCompacted, ReasonRestored: errRestored, ReasonLost: errLost,
	} {
		if errors.Is(err, cause) && v.stale == "" {
			v.stale = reason
			return 0
		}
	}
	if v.watched && lived > s.retries[1] {
		*failures = 0
	}
	if v.watched && (errors.Is(err, errSilent) || errors.Is(err, errDead)) {
		return 0
	}
	wait := s.jitter(s.retries[min(*failures, len(s.retries)-1)])
	*failures++
	return wait
}

// jitter is between half of d and d.
func (s *Store) jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(s.cfg.Rand()*float64(d/2))
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// session connects, brings the receiver up to date and follows the store until
// something ends that.
func (s *Store) session(ctx context.Context, v *view, apply func(model.Delta) error) error {
	v.watched = false
	client, err := s.conn()
	if err != nil {
		return s.fail("connect", "", err)
	}
	if conn := client.ActiveConnection(); conn != nil {
		conn.ResetConnectBackoff()
	}
	if v.stale != "" {
		err = s.resync(ctx, client, v, apply)
	} else {
		err = s.verify(ctx, client, v)
	}
	if err == nil {
		err = s.follow(ctx, client, v, apply)
	}
	if errors.Is(err, errDead) || errors.Is(err, context.DeadlineExceeded) {
		s.drop(client)
	}
	return err
}

// resync reads the whole store and delivers the difference.
func (s *Store) resync(ctx context.Context, client *clientv3.Client, v *view, apply func(model.Delta) error) error {
	next, delta, err := s.read(ctx, client, v)
	if err != nil {
		return err
	}
	s.cfg.Log.Info("store: read", "reason", v.stale, "objects", next.objects.len(),
		"put", len(delta.Put), "deleted", len(delta.Del), "revision", next.rev)
	s.status.update(func(st *Status) {
		st.Resyncs[v.stale]++
		st.StoreRevision = next.rev
	})
	if err := s.deliver(next, delta, apply); err != nil {
		return err
	}
	if v.stale == ReasonRestored {
		s.written.Store(0) // counted otherwise
		s.setbacks.Add(1)
	}
	*v = *next
	return nil
}

// deliver gives one step to the receiver, after which the receiver has v.
func (s *Store) deliver(v *view, d model.Delta, apply func(model.Delta) error) error {
	if err := apply(d); err != nil {
		return applyError{fmt.Errorf("apply revision %d: %w", d.Revision, err)}
	}
	s.status.update(func(st *Status) {
		st.Delivered, st.Objects = v.rev, v.objects.len()
		st.StoreRevision = max(st.StoreRevision, v.rev)
	})
	return nil
}
