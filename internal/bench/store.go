package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// A store is where a gateway reads its configuration, written to directly as a
// bulk load is in practice.
type store interface {
	put(ctx context.Context, docs []document) error
	// removeAll deletes every document that a run may have left behind.
	removeAll(ctx context.Context) error
	close() error
}

// perTxn stays below etcd's default limit of 128 operations.
const perTxn = 100

type etcdStore struct {
	client *clientv3.Client
	prefix string
}

// openStore connects to etcd at endpoints; prefix is the first segment of all
// keys, /apisix by default in the gateways.
func openStore(endpoints []string, prefix string) (*etcdStore, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", strings.Join(endpoints, ","), err)
	}
	return &etcdStore{client: client, prefix: strings.TrimRight(prefix, "/") + "/"}, nil
}

func (s *etcdStore) close() error { return s.client.Close() }

// ready waits until the store answers.
func (s *etcdStore) ready(ctx context.Context) error {
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err := s.client.Get(try, s.prefix)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("etcd at %s is not ready: %w", strings.Join(s.client.Endpoints(), ","), err)
		}
	}
}

func (s *etcdStore) put(ctx context.Context, docs []document) error {
	now := time.Now().Unix()
	for len(docs) > 0 {
		n := min(perTxn, len(docs))
		ops := make([]clientv3.Op, n)
		for i, d := range docs[:n] {
			value := fmt.Sprintf(`{%s,"create_time":%d,"update_time":%d}`, d.members, now, now)
			ops[i] = clientv3.OpPut(s.prefix+d.key, value)
		}
		if _, err := s.client.Txn(ctx).Then(ops...).Commit(); err != nil {
			return fmt.Errorf("write %s to %s to etcd: %w", docs[0].key, docs[n-1].key, err)
		}
		docs = docs[n:]
	}
	return nil
}

// create writes documents one by one, as tools do.
func (s *etcdStore) create(ctx context.Context, docs []document) error {
	for i := range docs {
		if err := s.put(ctx, docs[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes documents in the opposite order.
func (s *etcdStore) remove(ctx context.Context, docs []document) error {
	for _, d := range slices.Backward(docs) {
		if _, err := s.client.Delete(ctx, s.prefix+d.key); err != nil {
			return fmt.Errorf("delete %s from etcd: %w", d.key, err)
		}
	}
	return nil
}

// elsewhere is a prefix that the gateway does not look at.
const elsewhere = "/bench_elsewhere/"

func (s *etcdStore) beside() writer { return &etcdStore{client: s.client, prefix: elsewhere} }

// removeAll deletes routes before what they refer to.
func (s *etcdStore) removeAll(ctx context.Context) error {
	for _, dir := range []string{"routes", "services", "upstreams", "consumers"} {
		if _, err := s.client.Delete(ctx, s.prefix+dir+"/bench_", clientv3.WithPrefix()); err != nil {
			return fmt.Errorf("remove %s%s/bench_* from etcd: %w", s.prefix, dir, err)
		}
	}
	return nil
}
