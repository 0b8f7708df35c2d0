package app

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// A body that does not arrive is given up; before, its call waited for ever.
func TestSlowBody(t *testing.T) {
	failed := make(chan error, 1)
	server := httptest.NewServer(patient(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		failed <- err
	}), 10*time.Millisecond))
	defer server.Close()
	client, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("half a body was taken for a whole one")
	}
}

// An answer that is not read is given up; before, it was kept for ever.
func TestSlowAnswer(t *testing.T) {
	failed := make(chan error, 1)
	server := httptest.NewServer(patient(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for piece := make([]byte, 1024); ; {
			if _, err := w.Write(piece); err != nil {
				failed <- err
				return
			}
		}
	}), 10*time.Millisecond))
	defer server.Close()
	client, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the answer ended with %v", err)
	}
}

// A connection that was without a call for longer than that serves the next.
func TestPatienceBetweenCalls(t *testing.T) {
	server := httptest.NewServer(patient(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}), 50*time.Millisecond))
	defer server.Close()
	for range 2 {
		res, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		time.Sleep(100 * time.Millisecond)
	}
}

// bounded notes the deadlines that are set.
type bounded struct {
	http.ResponseWriter
	set []time.Time
}

func (b *bounded) SetReadDeadline(t time.Time) error {
	b.set = append(b.set, t)
	return nil
}

// The deadline moves with what arrives and is gone with the body's end: a call whose
// answer takes long is not cut.
func TestPatience(t *testing.T) {
	w := &bounded{ResponseWriter: httptest.NewRecorder()}
	api := patient(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
	}), time.Hour)
	api.ServeHTTP(w, httptest.NewRequest("PUT", "/", io.MultiReader(strings.NewReader(strings.Repeat("x", 3*bodyStretch)))))
	n := len(w.set)
	if n < 3 || !w.set[n-1].IsZero() {
		t.Fatalf("deadlines: %v", w.set)
	}
	if more := w.set[n-2].Sub(w.set[0]).Round(time.Millisecond); more != 3*time.Second {
		t.Errorf("%v more for three stretches", more)
	}
	w.set = nil
	api.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if len(w.set) != 0 {
		t.Errorf("a call without a body: %v", w.set)
	}
}

// A server for operators bounds heads and bodies.
func TestOperatorServer(t *testing.T) {
	s := operatorServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	w := &bounded{ResponseWriter: httptest.NewRecorder()}
	s.Handler.ServeHTTP(w, httptest.NewRequest("PUT", "/", strings.NewReader("x")))
	if s.ReadHeaderTimeout <= 0 || len(w.set) != 1 || w.set[0].IsZero() {
		t.Errorf("head %v, body %v", s.ReadHeaderTimeout, w.set)
	}
}
