package h2

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"weir/internal/model"
)

// plainCodec sends messages as the bytes that they are.
type plainCodec struct{}

func (plainCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (plainCodec) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(b)
	return nil
}

func (plainCodec) Name() string { return "plain" }

// grpcService is a service whose methods are found by their last element.
func grpcService(_ any, s grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(s)
	md, _ := metadata.FromIncomingContext(s.Context())
	switch _, name, _ := strings.Cut(method[1:], "/"); name {
	case "Echo": // answers every message at once
		s.SetTrailer(metadata.Pairs("x-sum", "abc", "x-bin", "\x01\x02"))
		for {
			var m []byte
			if err := s.RecvMsg(&m); err != nil {
				if err == io.EOF {
					return nil
				}
				return err
			}
			if err := s.SendMsg(&m); err != nil {
				return err
			}
		}
	case "Fail":
		return status.Error(codes.FailedPrecondition, "not so: 100 % ü")
	case "FailLate":
		m := []byte("one")
		if err := s.SendMsg(&m); err != nil {
			return err
		}
		return status.Error(codes.DataLoss, "lost")
	case "Sleep":
		<-s.Context().Done()
		return s.Context().Err()
	case "Meta":
		m := []byte(fmt.Sprint(md[":authority"], md["x-a"], md["te"], md["content-type"], md["user-agent"] != nil, md["x-real-ip"]))
		return s.SendMsg(&m)
	default:
		return status.Error(codes.Unimplemented, name)
	}
}

func grpcServer(t testing.TB, opts ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(append(opts, grpc.ForceServerCodec(plainCodec{}), grpc.UnknownServiceHandler(grpcService))...)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return l.Addr().String()
}

func (g *gateway) grpcRoute(uri, scheme, node, more string) {
	g.put(model.KindRoute, strings.Trim(strings.ReplaceAll(uri, "/", "-"), "-*"), fmt.Sprintf(`{"uri":%q,"upstream":{"type":"roundrobin","scheme":%q,"nodes":{%q:1}%s}}`, uri, scheme, node, more))
}

func (g *gateway) grpcClient(c *tls.Config) *grpc.ClientConn {
	addr, creds := g.plain.Addr().String(), insecure.NewCredentials()
	if c != nil {
		addr, creds = g.tls.Addr().String(), credentials.NewTLS(c)
	}
	cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds), grpc.WithAuthority("a.test"),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(plainCodec{})))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { cc.Close() })
	return cc
}

func unary(ctx context.Context, cc *grpc.ClientConn, method, in string, opts ...grpc.CallOption) (string, error) {
	q := []byte(in)
	var r []byte
	err := cc.Invoke(ctx, method, &q, &r, opts...)
	return string(r), err
}

func TestGRPC(t *testing.T) {
	g := start(t)
	_, _, cert, key := issue(t, "a.test", []string{"a.test"}, nil)
	g.ssl("1", cert, key, `,"sni":"a.test"`)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	secure := grpcServer(t, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	g.grpcRoute("/plain.Svc/*", "grpc", grpcServer(t), "")
	g.grpcRoute("/secure.Svc/*", "grpcs", secure, "")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, front := range []*tls.Config{nil, {InsecureSkipVerify: true, ServerName: "a.test"}} {
		cc := g.grpcClient(front)
		for _, svc := range []string{"/plain.Svc/", "/secure.Svc/"} {
			t.Run(fmt.Sprint(front != nil, svc), func(t *testing.T) {
				testCalls(ctx, t, cc, svc)
				testStreams(ctx, t, cc, svc)
			})
		}
	}
	if n := g.pools.Idle(); n != 2 {
		t.Errorf("%d connections to two servers", n)
	}
}

func testCalls(ctx context.Context, t *testing.T, cc *grpc.ClientConn, svc string) {
	var header, trailer metadata.MD
	for _, size := range []int{0, 1, 1000, 100_000, 3 << 20} {
		in := strings.Repeat("x", size)
		if got, err := unary(ctx, cc, svc+"Echo", in, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil || got != in {
			t.Fatalf("%d of %d bytes: %v", len(got), size, err)
		}
	}
	if fmt.Sprint(trailer["x-sum"], trailer["x-bin"], header["content-type"], header["server"]) != "[abc] [\x01\x02] [application/grpc+plain] [Weir]" {
		t.Errorf("%v %v", header, trailer)
	}
	if got, err := unary(metadata.AppendToOutgoingContext(ctx, "x-a", "1", "x-a", "2"), cc, svc+"Meta", ""); err != nil ||
		got != "[a.test] [1 2] [] [application/grpc+plain] true [127.0.0.1]" {
		t.Errorf("%q %v", got, err)
	}
	_, err := unary(ctx, cc, svc+"Fail", "")
	if s := status.Convert(err); s.Code() != codes.FailedPrecondition || s.Message() != "not so: 100 % ü" {
		t.Errorf("%v", err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	// The server sees the same deadline and resets the stream: a 502, if that is
	// here before the client's own timer.
	if _, err = unary(short, cc, svc+"Sleep", ""); status.Code(err) != codes.DeadlineExceeded && !strings.Contains(fmt.Sprint(err), "502") {
		t.Errorf("%v", err)
	}
	if _, err = unary(ctx, cc, "/none.Svc/Echo", ""); status.Code(err) != codes.Unimplemented { // 404
		t.Errorf("%v", err)
	}
}

func testStreams(ctx context.Context, t *testing.T, cc *grpc.ClientConn, svc string) {
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	s, err := cc.NewStream(ctx, desc, svc+"Echo")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // in lockstep: nothing may wait for more
		out := fmt.Appendf(nil, "message %d", i)
		var in []byte
		if err := s.SendMsg(&out); err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(&in); err != nil || !bytes.Equal(in, out) {
			t.Fatalf("%q %v", in, err)
		}
	}
	s.CloseSend()
	var in []byte
	if err := s.RecvMsg(&in); err != io.EOF || fmt.Sprint(s.Trailer()["x-sum"]) != "[abc]" {
		t.Fatalf("%v %v", err, s.Trailer())
	}
	if s, err = cc.NewStream(ctx, desc, svc+"FailLate"); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(&in); err != nil || string(in) != "one" {
		t.Fatalf("%q %v", in, err)
	}
	if err := s.RecvMsg(&in); status.Code(err) != codes.DataLoss {
		t.Fatal(err)
	}
}

// An authenticating plugin answers a gRPC client in plain HTTP, as APISIX does,
// and the client understands.
func TestGRPCRefused(t *testing.T) {
	g := start(t)
	g.put(model.KindRoute, "r", fmt.Sprintf(`{"uri":"/*","plugins":{"key-auth":{}},"upstream":{"scheme":"grpc","nodes":{%q:1}}}`, grpcServer(t)))
	g.put(model.KindConsumer, "jack", `{"username":"jack","plugins":{"key-auth":{"key":"k"}}}`)
	cc := g.grpcClient(nil)
	if _, err := unary(t.Context(), cc, "/a.Svc/Echo", "x"); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "401") {
		t.Errorf("%v", err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "apikey", "k")
	if got, err := unary(ctx, cc, "/a.Svc/Echo", "x"); err != nil || got != "x" {
		t.Errorf("%q %v", got, err)
	}
}

// What is wrong upstream is one status at the client.
func TestGRPCFailures(t *testing.T) {
	g := start(t)
	silent := listen(t)
	defer silent.Close()
	closed := listen(t)
	closed.Close()
	h1 := echo(t)
	g.grpcRoute("/slow.Svc/*", "grpc", grpcServer(t), `,"timeout":{"connect":1,"send":1,"read":0.2}`)
	g.grpcRoute("/silent.Svc/*", "grpc", silent.Addr().String(), `,"timeout":{"connect":0.2,"send":1,"read":1}`)
	g.grpcRoute("/closed.Svc/*", "grpc", closed.Addr().String(), "")
	g.grpcRoute("/h1.Svc/*", "grpc", h1, "")
	cc := g.grpcClient(nil)
	for _, tc := range []struct{ method, says string }{
		{"/slow.Svc/Sleep", "504"}, {"/silent.Svc/Echo", "504"}, {"/closed.Svc/Echo", "502"}, {"/h1.Svc/Echo", "502"},
	} {
		if _, err := unary(t.Context(), cc, tc.method, "x"); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", tc.method, err)
		}
	}
	if _, err := unary(t.Context(), cc, "/slow.Svc/Echo", "x"); err != nil {
		t.Errorf("after a time-out: %v", err)
	}
}

// HTTP/1.1 clients get trailers, too.
func TestGRPCOverHTTP1(t *testing.T) {
	g := start(t)
	g.grpcRoute("/a.Svc/*", "grpc", grpcServer(t), "")
	nc, err := net.Dial("tcp", g.plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for range 2 {
		fmt.Fprint(nc, "POST /a.Svc/Echo HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nContent-Type: application/grpc\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n7\r\n\x00\x00\x00\x00\x02hi\r\n0\r\n\r\n")
	}
	r := bufio.NewReader(nc)
	for range 2 {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || string(b) != "\x00\x00\x00\x00\x02hi" || resp.Trailer.Get("Grpc-Status") != "0" || resp.Trailer.Get("X-Sum") != "abc" {
			t.Errorf("%d %q %v %v", resp.StatusCode, b, resp.Trailer, err)
		}
	}
}

// A server that says goodbye again and again costs no call (case 162).
func TestGRPCGoodbye(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addrs := make(chan string, 1)
	l := listen(t)
	addrs <- l.Addr().String()
	var served atomic.Int64
	var wg sync.WaitGroup
	// Every connection ends gracefully after a moment, as with MaxConnectionAge.
	s := grpc.NewServer(grpc.ForceServerCodec(plainCodec{}), grpc.UnknownServiceHandler(func(srv any, s grpc.ServerStream) error {
		served.Add(1)
		return grpcService(srv, s)
	}), maxAge(20*time.Millisecond))
	wg.Go(func() { s.Serve(l) })
	defer wg.Wait()
	defer s.Stop()
	defer cancel()
	g := start(t)
	g.grpcRoute("/a.Svc/*", "grpc", <-addrs, "")
	cc := g.grpcClient(nil)
	body := strings.Repeat("x", 10_000)
	var calls sync.WaitGroup
	var failed atomic.Int64
	end := time.Now().Add(time.Second)
	for range 8 {
		calls.Go(func() {
			for time.Now().Before(end) {
				if _, err := unary(ctx, cc, "/a.Svc/Echo", body); err != nil && failed.Add(1) < 4 {
					t.Error(err)
				}
			}
		})
	}
	calls.Wait()
	if served.Load() < 100 {
		t.Errorf("only %d calls", served.Load())
	}
}

// A client that leaves ends the call at the server.
func TestGRPCCancel(t *testing.T) {
	left := make(chan error, 1)
	l := listen(t)
	s := grpc.NewServer(grpc.ForceServerCodec(plainCodec{}), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		m := []byte("here")
		s.SendMsg(&m)
		<-s.Context().Done()
		left <- s.Context().Err()
		return nil
	}))
	var wg sync.WaitGroup
	wg.Go(func() { s.Serve(l) })
	defer wg.Wait()
	defer s.Stop()
	g := start(t)
	g.grpcRoute("/a.Svc/*", "grpc", l.Addr().String(), "")
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := g.grpcClient(nil).NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/a.Svc/X")
	if err != nil {
		t.Fatal(err)
	}
	var m []byte
	if err := stream.RecvMsg(&m); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// maxAge ends a server's connections after d, gracefully.
func maxAge(d time.Duration) grpc.ServerOption {
	return grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: d})
}
