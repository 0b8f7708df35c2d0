package etcd

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// An oldStore treats tokens as etcd 3.4 does: one that it does not know is refused
// whatever comes with it, a request for another included.
type oldStore struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedAuthServer

	mu       sync.Mutex
	password string
	token    string // empty: none is known
	logins   int
}

func startOldStore(t *testing.T) (*oldStore, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	old, server := &oldStore{password: "hunter2"}, grpc.NewServer()
	etcdserverpb.RegisterKVServer(server, old)
	etcdserverpb.RegisterAuthServer(server, old)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(ln) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return old, "http://" + ln.Addr().String()
}

// check is called with mu held.
func (o *oldStore) check(ctx context.Context) (known bool, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	switch sent := md.Get(rpctypes.TokenFieldNameGRPC); {
	case len(sent) == 0:
		return false, nil
	case o.token == "" || sent[0] != o.token:
		return false, rpctypes.ErrGRPCInvalidAuthToken
	}
	return true, nil
}

func (o *oldStore) Range(ctx context.Context, _ *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known, err := o.check(ctx)
	if err == nil && !known {
		err = rpctypes.ErrGRPCUserEmpty
	}
	return &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{Revision: 7}}, err
}

func (o *oldStore) Authenticate(ctx context.Context, r *etcdserverpb.AuthenticateRequest) (*etcdserverpb.AuthenticateResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.Password != o.password {
		return nil, rpctypes.ErrGRPCAuthFailed
	}
	if _, err := o.check(ctx); err != nil {
		return nil, err
	}
	o.logins++
	o.token = fmt.Sprint("token", o.logins)
	return &etcdserverpb.AuthenticateResponse{Token: o.token}, nil
}

func (o *oldStore) change(password string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.password, o.token = password, ""
}

// A token that the store no longer knows is replaced, whatever the server does with
// the old one: a member was started anew, or the password is again what it was.
func TestTokenForgotten(t *testing.T) {
	t.Parallel()
	old, url := startOldStore(t)
	s := open(t, url, Config{User: "weir", Password: "hunter2", Timeout: 5 * time.Second})
	get := func() error {
		_, _, err := s.Get(t.Context(), "/routes/1")
		return err
	}
	if err := get(); err != nil {
		t.Fatal("first:", err)
	}
	old.change("hunter2")
	if err := get(); err != nil {
		t.Fatal("after the store forgot:", err)
	}
	old.change("other")
	if err := get(); err == nil {
		t.Fatal("the password is wrong")
	}
	old.change("hunter2")
	if err := get(); err != nil {
		t.Fatal("the password is right again:", err)
	}
}

// Many calls that are refused together log in once.
func TestLoginOnce(t *testing.T) {
	t.Parallel()
	old, url := startOldStore(t)
	s := open(t, url, Config{User: "weir", Password: "hunter2", Timeout: 5 * time.Second})
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if _, _, err := s.Get(t.Context(), "/routes/1"); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if old.logins != 1 {
		t.Error(old.logins, "logins")
	}
}
