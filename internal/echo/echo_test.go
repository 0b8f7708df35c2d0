package echo

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func Test(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l) }()

	req, err := http.NewRequest("PUT", "http://"+l.Addr().String()+"/a?b=<c>", strings.NewReader("text"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "example.com"
	req.Header.Set("X-A", "1")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	var a Answer
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if a.Method != "PUT" || a.Path != "/a?b=<c>" || a.Host != "example.com" || a.Headers["X-A"][0] != "1" || a.Body != "text" {
		t.Errorf("%+v", a)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestClosedListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := Serve(t.Context(), l); err == nil {
		t.Error("no error")
	}
}
