package admin

import (
	"fmt"
	"net/http"
	"strconv"

	"weir/internal/document"
)

// An answer is what a request gets. A nil body is an empty one.
type answer struct {
	status   int
	body     []byte
	version  string // X-API-VERSION
	revision int64  // of the write; 0: nothing was written
	late     bool   // the write is not live yet
	headers  [][2]string
}

func (a answer) send(w http.ResponseWriter) {
	h := w.Header()
	if a.version != "" {
		h.Set("X-API-VERSION", a.version)
	}
	if a.revision != 0 {
		h.Set("X-Weir-Revision", strconv.FormatInt(a.revision, 10))
	}
	if a.late {
		h.Set("X-Weir-Applied", "false")
	}
	for _, f := range a.headers {
		h.Set(f[0], f[1])
	}
	if a.status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a client that left is not told anything
}

// object prints names and values, all strings, and a line feed.
func object(pairs ...string) []byte {
	v := document.NewObject()
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], document.NewString(pairs[i+1]))
	}
	return append(v.Append(nil), '\n')
}

// refuse answers with a message for the client.
func refuse(status int, format string, args ...any) answer {
	return answer{status: status, body: object("error_msg", fmt.Sprintf(format, args...))}
}

// bad is the answer to a request that is wrong.
func bad(format string, args ...any) answer { return refuse(http.StatusBadRequest, format, args...) }

// storageFailed is the answer if the store does not do what it should.
func storageFailed(err error) answer { return refuse(http.StatusServiceUnavailable, "%v", err) }

func notFound() answer {
	return answer{status: http.StatusNotFound, body: object("message", "Key not found")}
}
