package app

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// How long the body of a call may take to arrive: a minute, and a second more for each
// stretch of it that has. How large one may be is the API's own bound. Each piece of an
// answer may take as long to be read.
const (
	bodyPatience = time.Minute
	bodyStretch  = 64 << 10 // bytes
)

// patient gives up calls whose body arrives more slowly than that, or whose answer is
// read so. A server's own time-outs would also end calls whose answer takes its time.
func patient(api http.Handler, least time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &slowAnswer{ResponseWriter: w, bound: http.NewResponseController(w).SetWriteDeadline, least: least}
		answer.wait(0)       // a call before it on the connection may have had its time
		defer answer.wait(0) // what is buffered is written afterwards
		if r.Body != nil && r.Body != http.NoBody {
			b := &slowBody{ReadCloser: r.Body, bound: http.NewResponseController(w).SetReadDeadline, until: time.Now().Add(least)}
			_ = b.bound(b.until) // a connection that has no deadlines is a test's
			r.Body = b
		}
		api.ServeHTTP(answer, r)
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

// A slowAnswer is an answer each piece of which has its time from when it is written.
type slowAnswer struct {
	http.ResponseWriter
	bound func(time.Time) error
	least time.Duration
}

func (a *slowAnswer) Write(p []byte) (int, error) {
	a.wait(len(p))
	return a.ResponseWriter.Write(p)
}

func (a *slowAnswer) wait(bytes int) {
	_ = a.bound(time.Now().Add(a.least + time.Second*time.Duration(bytes)/bodyStretch)) // a connection that has no deadlines is a test's
}

// Unwrap is for http.ResponseController.
func (a *slowAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
