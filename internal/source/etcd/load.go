package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"weir/internal/model"
)

// pages calls each for everything below dir, in byte order and as of one
// revision, which it returns with the identity of the cluster. The reads are
// small, because a range as a whole may exceed what gRPC carries. Before the
// first, begin is told how many keys there are; it is called again if the
// revision is compacted on the way, because the reading then begins anew.
func (s *Store) pages(ctx context.Context, c *clientv3.Client, dir string,
	begin func(keys int64), each func(*mvccpb.KeyValue)) (rev int64, cluster uint64, err error) {
	const restarts = 5
	for try := 0; ; try++ {
		rev, cluster, err = s.pagesOnce(ctx, c, dir, begin, each)
		if !errors.Is(err, rpctypes.ErrCompacted) || try == restarts {
			return rev, cluster, err
		}
	}
}

// pagesOnce reads a page while each is called for the one before.
func (s *Store) pagesOnce(ctx context.Context, c *clientv3.Client, dir string,
	begin func(keys int64), each func(*mvccpb.KeyValue)) (rev int64, cluster uint64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	read := make(chan *clientv3.GetResponse, 1)
	ended := make(chan error, 1)
	go func() {
		defer close(read)
		ended <- s.readPages(ctx, c, dir, read)
	}()
	defer func() {
		cancel()
		for range read { // until the reader has ended
		}
	}()
	for res := range read {
		if rev == 0 {
			rev, cluster = res.Header.Revision, res.Header.ClusterId
			begin(res.Count)
		}
		for _, kv := range res.Kvs {
			each(kv)
		}
	}
	if err := <-ended; err != nil {
		return 0, 0, err
	}
	return rev, cluster, nil
}

// readPages sends the pages of dir, all as of the revision of the first.
func (s *Store) readPages(ctx context.Context, c *clientv3.Client, dir string, to chan<- *clientv3.GetResponse) error {
	w := newWalk(dir, s.cfg.PageSize)
	for rev := int64(0); ; {
		from, end := w.bounds()
		res, err := s.page(ctx, c, from, end, w.limit, rev)
		if err != nil {
			return err
		}
		if rev == 0 {
			rev = res.Header.Revision
		}
		select {
		case to <- res:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !w.took(res) {
			return nil
		}
	}
}

func (s *Store) page(ctx context.Context, c *clientv3.Client, from, end string, limit int, rev int64) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return c.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(int64(limit)), clientv3.WithRev(rev))
}

// read reads the whole state into a new view and returns it with what must be
// delivered to get there from old.
func (s *Store) read(ctx context.Context, c *clientv3.Client, old *view) (*view, model.Delta, error) {
	var next *view
	var delta model.Delta
	var seen int
	begin := func(keys int64) {
		next, delta, seen = newView(int(keys)), model.Delta{}, 0
		if old.objects.len() == 0 {
			delta.Put = make([]model.Object, 0, keys)
		}
	}
	each := func(kv *mvccpb.KeyValue) {
		ch, ok := s.change(mvccpb.Event_PUT, kv)
		if !ok || ch.del {
			return
		}
		mark := next.set(ch)
		if was, ok := old.objects.get(ch.path); !ok || was != mark {
			delta.Put = append(delta.Put, ch.object)
		}
		if seen++; seen%min(s.cfg.PageSize, 1000) == 0 {
			s.cfg.Loading(seen)
		}
	}
	rev, cluster, err := s.pages(ctx, c, s.cfg.Prefix+"/", begin, each)
	if err != nil {
		return nil, model.Delta{}, s.fail("read", s.cfg.Prefix+"/", err)
	}
	s.cfg.Loading(seen)
	for path := range old.objects.all() {
		if _, ok := next.objects.get(path); !ok {
			key, _ := ObjectKey(path)
			delta.Del = append(delta.Del, key)
		}
	}
	next.rev, next.cluster, delta.Revision = rev, cluster, rev
	return next, delta, nil
}

// verify finds out whether the store still has the history that was delivered:
// it may have been restored from a backup or be another one. A store that went
// back and then grew again is told by its last delivered object, read at the
// last delivered revision.
func (s *Store) verify(ctx context.Context, c *clientv3.Client, v *view) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	key := s.cfg.Prefix + "/" + v.anchor.path
	res, err := c.Get(ctx, key, clientv3.WithRev(v.rev))
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return errCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		return errRestored
	case err != nil:
		return s.fail("read", key, err)
	}
	s.sawHeader(res.Header)
	if res.Header.ClusterId != v.cluster || res.Header.Revision < v.rev {
		return errRestored
	}
	mark, anchored := v.objects.get(v.anchor.path)
	if !anchored {
		return nil
	}
	if len(res.Kvs) != 1 {
		return errRestored
	}
	ch, ok := s.change(mvccpb.Event_PUT, res.Kvs[0])
	if !ok || ch.del || newMark(ch.object) != mark {
		return errRestored
	}
	return nil
}

func (s *Store) sawHeader(h *etcdserverpb.ResponseHeader) {
	s.status.update(func(st *Status) { st.StoreRevision = h.GetRevision() })
}
