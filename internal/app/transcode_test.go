package app

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// greeter starts a gRPC server without TLS: its reply's field 1 is the request's,
// after "Hello " and, in brackets, the request header TE. The name "nobody" is
// not found.
func (s *site) greeter() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: h2, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || len(b) < 7 || r.Header.Get("Content-Type") != "application/grpc" || r.Method != "POST" {
			s.t.Errorf("%s %s: %x, %v", r.Method, r.Header.Get("Content-Type"), b, err)
			return
		}
		name := string(b[7:])
		w.Header().Set("Content-Type", "application/grpc")
		if name == "nobody" {
			w.Header().Set("grpc-status", "5")
			w.Header().Set("grpc-message", "not there")
			return
		}
		text := "Hello " + name + " [" + r.Header.Get("Te") + "] " + r.URL.Path
		w.Header().Set("Trailer", "grpc-status")
		answer := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text)+2))
		answer = append(append(answer, 0x0a, byte(len(text))), text...)
		_, _ = w.Write(answer)
		w.Header().Set("grpc-status", "0")
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	s.t.Cleanup(func() { server.Close(); <-done })
	return l.Addr().String()
}

// TestGRPCTranscode: a plain request becomes a call, its proto object changes
// under it and cannot go. Field case 183: the service is told that trailers pass.
func TestGRPCTranscode(t *testing.T) {
	s := newSite(t, "")
	proto := func(field string) string {
		return fmt.Sprintf(`{"content":"syntax = \"proto3\"; package p; service Greeter { rpc Hello (Q) returns (A) {} } message Q { string %s = 1; } message A { string message = 1; }"}`, field)
	}
	s.put("protos/1", proto("name"))
	s.put("routes/1", `{"uri":"/hello","plugins":{"grpc-transcode":{"proto_id":"1","service":"p.Greeter","method":"Hello"}},"upstream":{"scheme":"grpc","nodes":{"`+s.greeter()+`":1}}}`)
	expect := func(target string, status int, body string) *http.Response {
		t.Helper()
		res, got := s.send(target)
		if res.StatusCode != status || !strings.Contains(got, body) {
			t.Errorf("%s: %d %s, want %d %s", target, res.StatusCode, got, status, body)
		}
		return res
	}
	res := expect("/hello?name=Ann", 200, `{"message":"Hello Ann [trailers] /p.Greeter/Hello"}`)
	if res.Header.Get("Content-Type") != "application/json" || res.Trailer.Get("grpc-status") != "0" {
		t.Errorf("%v, trailers %v", res.Header, res.Trailer)
	}
	res = expect("/hello?name=nobody", 404, "")
	if res.Header.Get("grpc-message") != "not there" {
		t.Errorf("%v", res.Header)
	}
	s.put("protos/1", proto("who"))
	expect("/hello?who=Bob", 200, `Hello Bob`)
	compiled := s.g.revision().Compiled["routes"]
	s.put("protos/1", proto("who"))
	if now := s.g.revision().Compiled["routes"]; now != compiled {
		t.Errorf("%d routes were compiled for a proto object that stays the same", now-compiled)
	}
	if status := s.call("DELETE", "protos/1", ""); status != 400 {
		t.Errorf("a proto object in use was deleted: %d", status)
	}
	if status := s.call("DELETE", "protos/1?force=true", ""); status != 200 {
		t.Errorf("force: %d", status)
	}
	expect("/hello?who=Bob", 503, "")
	s.put("protos/1", proto("who"))
	expect("/hello?who=Bob", 200, `Hello Bob`)
}
