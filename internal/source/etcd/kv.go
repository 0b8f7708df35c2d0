package etcd

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A KV is one stored document.
type KV struct {
	Key      string // with the prefix
	Value    []byte
	Created  int64 // store revision that created the key
	Modified int64 // store revision of this value
}

func newKV(kv *mvccpb.KeyValue) KV {
	return KV{Key: string(kv.Key), Value: kv.Value, Created: kv.CreateRevision, Modified: kv.ModRevision}
}

// PutOptions are the conditions of a write.
type PutOptions struct {
	TTL        int64  // seconds after which the key vanishes; 0: never
	IfModified *int64 // required KV.Modified of what is there, 0: nothing may be

	// IfThere are other keys that have to be there.
	IfThere []string
}

// A PutResult tells what a write did.
type PutResult struct {
	Revision int64 // of the store, with the write
	Created  bool  // the key was not there before
	Prev     *KV   // what was there before, or nil
}

// A DeleteResult tells what a deletion did.
type DeleteResult struct {
	Revision int64 // of the store, with the deletion
	Deleted  bool  // the key itself was there
}

// Get reads one key, given without the prefix: "/routes/1". A key that is not
// there is a nil KV. The number is the store's revision at the read.
func (s *Store) Get(ctx context.Context, key string) (*KV, int64, error) {
	var res *clientv3.GetResponse
	err := s.do(ctx, "get", key, func(ctx context.Context, c *clientv3.Client) (err error) {
		res, err = c.Get(ctx, s.path(key))
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if len(res.Kvs) == 0 {
		return nil, res.Header.Revision, nil
	}
	kv := newKV(res.Kvs[0])
	return &kv, res.Header.Revision, nil
}

// List reads everything below a directory, "/routes", in byte order of the
// keys and as of one revision, which it returns. Markers of directories are
// left out.
func (s *Store) List(ctx context.Context, dir string) ([]KV, int64, error) {
	var list []KV
	var rev int64
	err := s.do(ctx, "list", dir, func(_ context.Context, c *clientv3.Client) (err error) {
		begin := func(keys int64) { list = make([]KV, 0, keys) }
		rev, _, err = s.pages(ctx, c, s.path(strings.TrimRight(dir, "/")+"/"), begin, func(kv *mvccpb.KeyValue) {
			if string(kv.Value) != initDir {
				list = append(list, newKV(kv))
			}
		})
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return list, rev, nil
}

// Put writes one key. A condition that does not hold is ErrChanged, and
// nothing is written. The value may be reused afterwards.
func (s *Store) Put(ctx context.Context, key string, value []byte, opt PutOptions) (PutResult, error) {
	// The in-process server hands this very slice on to its watchers.
	text := string(bytes.Clone(value))
	var result PutResult
	before := s.delivered()
	err := s.do(ctx, "put", key, func(ctx context.Context, c *clientv3.Client) error {
		opts := []clientv3.OpOption{clientv3.WithPrevKV()}
		if opt.TTL > 0 {
			lease, err := c.Grant(ctx, opt.TTL)
			if err != nil {
				return err
			}
			opts = append(opts, clientv3.WithLease(lease.ID))
		}
		res, err := c.Txn(ctx).If(s.conditions(key, opt)...).Then(clientv3.OpPut(s.path(key), text, opts...)).Commit()
		if err != nil {
			return err
		}
		if !res.Succeeded {
			return ErrChanged
		}
		result = PutResult{Revision: res.Header.Revision, Created: true}
		if prev := res.Responses[0].GetResponsePut().GetPrevKv(); prev != nil {
			kv := newKV(prev)
			result.Created, result.Prev = false, &kv
		}
		return nil
	})
	if err == nil && result.Revision <= before {
		err = s.fail("put", s.path(key), s.awaitSetback(ctx))
	}
	if err == nil {
		s.written.Store(result.Revision)
	}
	return result, err
}

func (s *Store) conditions(key string, opt PutOptions) (all []clientv3.Cmp) {
	if opt.IfModified != nil {
		all = append(all, clientv3.Compare(clientv3.ModRevision(s.path(key)), "=", *opt.IfModified))
	}
	for _, other := range opt.IfThere {
		all = append(all, clientv3.Compare(clientv3.ModRevision(s.path(other)), ">", 0))
	}
	return all
}

// Delete removes one key and everything below the prefixes, for instance the
// credentials of a consumer, in one step.
func (s *Store) Delete(ctx context.Context, key string, alsoPrefixes ...string) (DeleteResult, error) {
	ops := []clientv3.Op{clientv3.OpDelete(s.path(key))}
	for _, p := range alsoPrefixes {
		ops = append(ops, clientv3.OpDelete(s.path(p), clientv3.WithPrefix()))
	}
	var result DeleteResult
	defer func() {
		if result.Deleted {
			s.written.Store(result.Revision)
		}
	}()
	before := s.delivered()
	err := s.do(ctx, "delete", key, func(ctx context.Context, c *clientv3.Client) error {
		res, err := c.Txn(ctx).Then(ops...).Commit()
		if err != nil {
			return err
		}
		result = DeleteResult{
			Revision: res.Header.Revision,
			Deleted:  res.Responses[0].GetResponseDeleteRange().GetDeleted() > 0,
		}
		return nil
	})
	if err == nil && result.Revision < before {
		err = s.fail("delete", s.path(key), s.awaitSetback(ctx))
	}
	return result, err
}

func (s *Store) delivered() int64 {
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	return s.status.s.Delivered
}

// awaitSetback waits until a store that has numbered a write below what was
// delivered before, so one that was restored, is delivered anew. Until then its
// revisions say nothing about what is live.
func (s *Store) awaitSetback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(s.cfg.Timeout, 2*s.cfg.ResyncDelay))
	defer cancel()
	for known := s.setbacks.Load(); s.setbacks.Load() == known; {
		select {
		case s.suspect <- known:
		default:
		}
		s.wake()
		if !sleep(ctx, 5*time.Millisecond) {
			return fmt.Errorf("%w: %w", errRestored, ctx.Err())
		}
	}
	return nil
}

// NextID returns a number that no other call on this store returns: the
// revision of a write to the key gen_id, as APISIX makes ids for POST.
func (s *Store) NextID(ctx context.Context) (int64, error) {
	const key = "/gen_id"
	var rev int64
	err := s.do(ctx, "put", key, func(ctx context.Context, c *clientv3.Client) error {
		res, err := c.Put(ctx, s.path(key), "1")
		if err == nil {
			rev = res.Header.Revision
		}
		return err
	})
	return rev, err
}

// Revision asks the store for its present revision.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	const key = "/gen_id"
	var rev int64
	err := s.do(ctx, "get", key, func(ctx context.Context, c *clientv3.Client) error {
		res, err := c.Get(ctx, s.path(key), clientv3.WithCountOnly())
		if err == nil {
			rev = res.Header.Revision
		}
		return err
	})
	return rev, err
}

// Version is that of the store's first member that tells it.
func (s *Store) Version(ctx context.Context) (string, error) {
	version := ""
	err := s.do(ctx, "status", "", func(ctx context.Context, c *clientv3.Client) error {
		var failed error
		for _, endpoint := range c.Endpoints() {
			res, err := c.Status(ctx, endpoint)
			if err == nil {
				version = res.Version
				return nil
			}
			failed = err
		}
		return failed
	})
	return version, err
}

// do runs one operation within the timeout and says of its error where and
// what.
func (s *Store) do(ctx context.Context, op, key string, f func(context.Context, *clientv3.Client) error) error {
	client, err := s.conn()
	if err != nil {
		return s.fail(op, s.path(key), err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience())
	defer cancel()
	// On a goroutine of its own: a store inside the process that fails for good
	// ends the goroutine that called it, or never answers.
	done := make(chan error, 1)
	go func() { done <- f(ctx, client) }()
	select {
	case err = <-done:
	case <-s.cfg.Gone:
		err = errGone
	}
	if err == nil && !s.Status().Connected {
		s.wake()
	}
	return s.fail(op, s.path(key), err)
}

// wake ends the pause before the next watch.
func (s *Store) wake() {
	select {
	case s.answered <- struct{}{}:
	default:
	}
}

// unreachable is how long an operation waits for a store that is known to be
// unreachable: it may just have come back.
const unreachable = 2 * time.Second

func (s *Store) patience() time.Duration {
	if st := s.Status(); !st.Connected && st.LastError != "" {
		return min(s.cfg.Timeout, unreachable)
	}
	return s.cfg.Timeout
}
