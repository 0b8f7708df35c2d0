package etcd

import (
	"context"
	"errors"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// A login gives the calls of one connection the token of a user, and gets another
// when the store no longer knows it: it forgets tokens when they end, when a member
// starts anew and when the password changes. The client library does that too, but it
// sends the token that was refused along with the request for another. Servers of
// etcd 3.4 refuse that as well, and it asks again without an end.
type login struct {
	user, password string
	token          atomic.Pointer[string] // nil: none yet
	turn           chan struct{}          // holds one while somebody asks for a token
}

func newLogin(user, password string) *login {
	return &login{user: user, password: password, turn: make(chan struct{}, 1)}
}

func (l *login) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream)}
}

// with is ctx with the token.
func with(ctx context.Context, token *string) context.Context {
	if token == nil {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, *token)
}

// unary is a grpc.UnaryClientInterceptor. What the store has refused for its token it
// has not done, so that it can be asked again.
func (l *login) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	const tries = 3 // others may change users meanwhile
	for try := 1; ; try++ {
		token := l.token.Load()
		err := invoker(with(ctx, token), method, req, reply, cc, opts...)
		if !refusedToken(err) || try == tries {
			return err
		}
		if err := l.renew(ctx, token, cc, invoker); err != nil {
			return err
		}
	}
}

// stream is a grpc.StreamClientInterceptor. The calls before a stream have seen to the
// token.
func (l *login) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return streamer(with(ctx, l.token.Load()), desc, cc, method, opts...)
}

func refusedToken(err error) bool {
	if err == nil {
		return false
	}
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) ||
		errors.Is(err, rpctypes.ErrUserEmpty)
}

// renew gets a token in place of one that was refused; who is not the first waits for
// that: checking a password is hard work for the store.
func (l *login) renew(ctx context.Context, refused *string, cc *grpc.ClientConn, invoker grpc.UnaryInvoker) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.token.Load() != refused {
		return nil
	}
	var res etcdserverpb.AuthenticateResponse
	err := invoker(ctx, etcdserverpb.Auth_Authenticate_FullMethodName,
		&etcdserverpb.AuthenticateRequest{Name: l.user, Password: l.password}, &res, cc)
	if err != nil {
		return err
	}
	l.token.Store(&res.Token)
	return nil
}
