package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"weir/internal/model"
	"weir/internal/monotonic"
)

// A watch is one watch of the prefix, on a stream of its own.
type watch struct {
	store    *Store
	client   *clientv3.Client
	cluster  uint64
	trusted  bool // a progress notice tells that everything up to it was sent
	pending  *pending
	received atomic.Int64 // revision up to which everything was received
	heard    atomic.Int64 // time of the last message, monotonic
	created  atomic.Bool  // the store has confirmed the watch
	end      context.CancelCauseFunc
}

// follow delivers the events after v until the watch ends and returns why.
func (s *Store) follow(ctx context.Context, client *clientv3.Client, v *view, apply func(model.Delta) error) error {
	w := &watch{
		store: s, client: client, cluster: v.cluster,
		trusted: s.trustsProgress(ctx, client), pending: newPending(v.rev),
	}
	w.received.Store(v.rev)
	w.hear()
	parent := ctx
	ctx, w.end = context.WithCancelCause(ctx)
	// The stream ends after the watchdog, whose request would otherwise open it
	// again.
	stream, closeStream := context.WithCancel(w.streamContext(ctx))
	var dog, receiver sync.WaitGroup
	receiver.Go(func() { w.end(w.receive(stream, v.rev+1)) })
	dog.Go(func() { w.guard(ctx, stream) })
	check := s.newChecker(client)
	defer func() {
		w.end(nil)
		check.stop()
		dog.Wait()
		closeStream()
		receiver.Wait()
		v.watched = w.created.Load()
	}()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			if parent.Err() != nil || errors.Is(context.Cause(ctx), errRestored) {
				return context.Cause(ctx)
			}
		case <-w.pending.ready:
		case <-check.due():
			check.start(ctx, v.rev)
			continue
		case got := <-check.results:
			if d := check.finish(ctx, got, v); len(d.Put)+len(d.Del) > 0 {
				if err := s.deliver(v, d, apply); err != nil {
					return err
				}
			}
			continue
		}
		changes, rev := w.pending.take()
		check.note(changes)
		if rev == v.rev {
			continue
		}
		if err := s.deliver(v, v.step(changes, rev), apply); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

type breakKey struct{}

// streamContext is the context of the stream: it outlives ctx, tells
// reportBreak whom to call, and has a name of its own, since the client would
// otherwise take up the stream of an earlier watch.
func (w *watch) streamContext(ctx context.Context) context.Context {
	ctx = context.WithValue(context.WithoutCancel(ctx), breakKey{}, w.end)
	ctx = clientv3.WithRequireLeader(ctx)
	return metadata.AppendToOutgoingContext(ctx, "weir-watch", strconv.FormatInt(w.heard.Load(), 36))
}

// reportBreak ends a watch whose stream broke. The client would open another
// stream by itself, but without asking whether the store is still the same and
// without the pauses that a store in trouble needs.
func reportBreak(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, cc, method, opts...)
	end, watched := ctx.Value(breakKey{}).(context.CancelCauseFunc)
	if !watched {
		return stream, err
	}
	if err != nil {
		end(err)
		return stream, err
	}
	return &watchStream{ClientStream: stream, end: end}, nil
}

type watchStream struct {
	grpc.ClientStream
	end context.CancelCauseFunc
}

func (s *watchStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil {
		s.end(err)
	}
	return err
}

// trustsProgress tells whether the revision of a progress notice may be taken
// as received. Servers before 3.4.25 and 3.5.8 could send the notice before
// the events it covers (etcd-io/etcd#15220).
func (s *Store) trustsProgress(ctx context.Context, client *clientv3.Client) bool {
	conn := client.ActiveConnection()
	if conn == nil {
		return true // the server in this process
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	res, err := etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return false
	}
	return progressIsSafe(res.Version)
}

func progressIsSafe(version string) bool {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n != 3 {
		return false
	}
	switch {
	case major != 3:
		return major > 3
	case minor == 4:
		return patch >= 25
	case minor == 5:
		return patch >= 8
	}
	return minor > 5
}

func (w *watch) hear() { w.heard.Store(monotonic.Of(w.store.cfg.Now())) }

// silence is how long ago the last message came.
func (w *watch) silence() time.Duration {
	return time.Duration(monotonic.Of(w.store.cfg.Now()) - w.heard.Load())
}

// receive takes the messages of the watch until it ends and returns why.
func (w *watch) receive(stream context.Context, from int64) error {
	messages := w.client.Watch(stream, w.store.cfg.Prefix+"/", clientv3.WithPrefix(), clientv3.WithRev(from),
		clientv3.WithCreatedNotify(), clientv3.WithProgressNotify(), clientv3.WithFragment())
	for m := range messages {
		w.hear()
		if err := w.take(m); err != nil {
			return err
		}
	}
	return w.store.fail("watch", w.store.cfg.Prefix+"/", errors.New("the stream was closed"))
}

func (w *watch) take(m clientv3.WatchResponse) error {
	s := w.store
	if err := m.Err(); err != nil {
		if m.CompactRevision != 0 {
			return errCompacted
		}
		return s.fail("watch", s.cfg.Prefix+"/", err)
	}
	at := w.received.Load()
	if m.Header.ClusterId != w.cluster {
		return errRestored
	}
	if m.Created {
		w.created.Store(true)
	}
	s.status.update(func(st *Status) {
		st.Connected, st.LastError = true, ""
		st.StoreRevision = max(st.StoreRevision, m.Header.Revision)
		if len(m.Events) > 0 {
			st.LastEvent = s.cfg.Now()
		}
	})
	if m.IsProgressNotify() && w.trusted && m.Header.Revision > at {
		w.advance(nil, m.Header.Revision)
	}
	if len(m.Events) == 0 {
		return nil
	}
	if m.Events[0].Kv.ModRevision <= at {
		return errLost
	}
	changes := make([]change, 0, len(m.Events))
	for _, e := range m.Events {
		if ch, ok := s.change(e.Type, e.Kv); ok {
			changes = append(changes, ch)
		}
	}
	// The revision of the header may lie beyond events that are still to come.
	w.advance(changes, m.Events[len(m.Events)-1].Kv.ModRevision)
	return nil
}

func (w *watch) advance(changes []change, rev int64) {
	w.received.Store(rev)
	w.pending.add(changes, rev)
}

// guard ends the watch when it has been silent for too long, or when the store
// has moved on and the watch does not tell. It asks on the same connection, so
// that it also notices when that is dead.
func (w *watch) guard(ctx, stream context.Context) {
	limit := w.store.cfg.WatchTimeout
	tick := time.NewTicker(max(limit/10, time.Millisecond))
	defer tick.Stop()
	soon := time.NewTicker(max(limit/50, time.Millisecond))
	defer soon.Stop()
	var own overdue
	late := 0 // ticks at which the watch lagged
	for {
		select {
		case <-ctx.Done():
			return
		case known := <-w.store.suspect:
			if known == w.store.setbacks.Load() {
				w.end(errRestored)
				return
			}
			continue
		case <-soon.C:
			if err := w.miss(ctx, stream, &own, limit/50); err != nil {
				w.end(err)
				return
			}
			continue
		case <-tick.C:
		}
		silence := w.silence()
		if silence < limit/2 {
			late = 0
			continue
		}
		before := w.received.Load()
		rev, err := w.ask(ctx, stream)
		behind := rev > w.received.Load()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.end(fmt.Errorf("%w: %w", errDead, err))
			return
		case rev < before:
			w.end(errRestored)
			return
		case !behind && silence > limit:
			w.end(errIdle)
			return
		case behind && w.trusted:
			late++
		}
		if late > 2 || silence > limit {
			w.end(fmt.Errorf("%w for %v: received %d, the store is at %d",
				errSilent, silence.Round(time.Millisecond), w.received.Load(), rev))
			return
		}
	}
}

// overdue follows whether own writes come back.
type overdue struct {
	written int64 // revision of the newest at the last look
	missed  int   // looks at which it had still not come
}

// miss says why the watch is not to be trusted, if a write of this very process does
// not come back although nothing else does either. A store that was asked on the same
// connection and has answered sends what it has sooner.
func (w *watch) miss(ctx, stream context.Context, own *overdue, patience time.Duration) error {
	due := own.written
	own.written = w.store.written.Load()
	if due <= w.received.Load() || w.silence() < patience {
		own.missed = 0
		return nil
	}
	if _, err := w.ask(ctx, stream); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("%w: %w", errDead, err)
	}
	if own.missed++; own.missed < 3 || due <= w.received.Load() {
		return nil
	}
	w.store.written.CompareAndSwap(due, 0) // told once
	return fmt.Errorf("%w: received %d, %d was written", errSilent, w.received.Load(), due)
}

// ask asks for a progress notice and for the revision of the store, which gets
// the time of an attempt to connect for it.
func (w *watch) ask(ctx, stream context.Context) (int64, error) {
	limit := w.store.cfg.DialTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	asked, cancelAsk := context.WithTimeout(stream, limit)
	defer cancelAsk()
	if err := w.client.RequestProgress(asked); err != nil {
		return 0, err
	}
	res, err := w.client.Get(ctx, w.store.cfg.Prefix+"/gen_id", clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return res.Header.Revision, nil
}
