package embed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// stop ends what start has begun, as far as it came.
func (s *Server) stop() error {
	s.fatal.quiet.Store(true)
	var errs []error
	if s.client != nil {
		if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
		}
	}
	if s.etcd != nil {
		errs = append(errs, s.stopServer())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// stopServer cuts the connections first: etcd would wait seconds for watches
// that never end by themselves.
func (s *Server) stopServer() error {
	s.grpcMu.Lock()
	servers := s.grpc
	s.grpc = nil
	s.grpcMu.Unlock()
	for _, g := range servers {
		g.Stop()
	}
	if s.fatal.cause() == nil {
		s.etcd.Close()
		return nil
	}
	// After a failure the server may wait for a goroutine that has ended.
	const patience = 2 * time.Second
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.etcd.Close()
	}()
	select {
	case <-closed:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("the failed server did not stop within %v", patience)
	}
}

// disarm ends the alarm of a full database once there is room again: the
// history is dropped and the file rewritten, since deletions alone free
// nothing.
func (s *Server) disarm(ctx context.Context, cfg Config) error {
	alarms, err := s.client.AlarmList(ctx)
	if err != nil {
		return fmt.Errorf("list alarms: %w", err)
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm != etcdserverpb.AlarmType_NOSPACE {
			continue
		}
		if err := s.shrink(ctx); err != nil {
			return fmt.Errorf("make room: %w", err)
		}
		if size := s.etcd.Server.Backend().Size(); size >= cfg.Quota {
			cfg.Log.Error("embedded store: full, writes are refused", "bytes", size, "quota", cfg.Quota)
			return nil
		}
		member := &clientv3.AlarmMember{MemberID: alarm.MemberID, Alarm: alarm.Alarm}
		if _, err := s.client.AlarmDisarm(ctx, member); err != nil {
			return fmt.Errorf("disarm: %w", err)
		}
	}
	return nil
}

func (s *Server) shrink(ctx context.Context) error {
	res, err := s.client.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	if _, err := s.client.Compact(ctx, res.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		return err
	}
	return s.etcd.Server.Backend().Defrag()
}
