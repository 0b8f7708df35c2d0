// Package echo is a small upstream that answers with what it was asked, to try
// a gateway with.
package echo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// An Answer is the body of every response.
type Answer struct {
	Method  string              `json:"method"`
	Path    string              `json:"path"` // with the query
	Host    string              `json:"host"`
	Headers map[string][]string `json:"headers"`
	Body    string              `json:"body,omitempty"` // at most MaxBody bytes of it
}

// MaxBody is how much of a body is answered.
const MaxBody = 64 << 10

// Handler answers every request with status 200 and an Answer as JSON.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody))
		if err != nil {
			return // the client is gone
		}
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		// An error here means that the client is gone.
		_ = enc.Encode(Answer{r.Method, r.RequestURI, r.Host, r.Header, string(body)})
	})
}

// Serve answers on l with Handler until ctx ends.
func Serve(ctx context.Context, l net.Listener) error { return ServeWith(ctx, l, Handler()) }

// ServeWith answers on l with h until ctx ends, then lets what has begun finish,
// for at most a second. It closes l.
func ServeWith(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err := s.Shutdown(short)
		if err != nil {
			err = errors.Join(err, s.Close())
		}
		stopped <- err
	})
	err := s.Serve(l)
	if !stop() {
		return <-stopped
	}
	return err
}
