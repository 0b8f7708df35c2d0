package app

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// How long the body of a call may take to arrive: a minute, and a second more for each
// stretch of it that has. How large one may be is the API's own bound.
const (
	bodyPatience = time.Minute
	bodyStretch  = 64 << 10 // bytes
)

// patient gives up calls whose body arrives more slowly than that. Of a server's own
// time-outs, ReadTimeout would also end calls whose answer takes its time.
func patient(api http.Handler, least time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			b := &slowBody{ReadCloser: r.Body, bound: http.NewResponseController(w).SetReadDeadline, until: time.Now().Add(least)}
			_ = b.bound(b.until) // a connection that has no deadlines is a test's
			r.Body = b
		}
		api.ServeHTTP(w, r)
	})
}

// A slowBody is a body with a deadline that moves with what has arrived.
type slowBody struct {
	io.ReadCloser
	bound func(time.Time) error
	until time.Time
}

func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		_ = b.bound(time.Time{}) // the answer may take its time
	case err == nil:
		b.until = b.until.Add(time.Second * time.Duration(n) / bodyStretch)
		_ = b.bound(b.until)
	}
	return n, err
}
