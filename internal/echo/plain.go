package echo

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// maxDelay bounds what a request may ask for.
const maxDelay = time.Minute

// Plain is what APIcast has at its port 8081 (apicast.md §1): as host "backend" it
// authorizes every call to 3scale's backend, otherwise it answers with the request
// as text. The query parameter delay makes it wait for so many seconds.
func Plain() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s, err := strconv.ParseFloat(r.URL.Query().Get("delay"), 64); err == nil && s > 0 {
			wait := time.NewTimer(min(time.Duration(s*float64(time.Second)), maxDelay))
			defer wait.Stop()
			select {
			case <-wait.C:
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("Content-Type", "text/plain")
		// Errors of writing mean that the client is gone.
		switch name := backendAnswers[r.URL.Path]; {
		case r.Host == "backend" && name == "":
			w.WriteHeader(http.StatusNotFound)
		case r.Host == "backend":
			_, _ = fmt.Fprintf(w, "transactions %s!\n", name)
		case r.URL.Path == "/config/":
			_, _ = io.WriteString(w, "{}\n")
		default:
			plain(w, r)
		}
	})
}

// backendAnswers are what the mock backend says at its paths.
var backendAnswers = map[string]string{
	"/transactions/authrep.xml": "authrep", "/transactions/oauth_authrep.xml": "oauth_authrep", "/transactions/authorize.xml": "authorize",
}

func plain(w io.Writer, r *http.Request) {
	_, _ = fmt.Fprintf(w, "%s %s %s\nHost: %s\n", r.Method, r.RequestURI, r.Proto, r.Host)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, v := range r.Header[name] {
			_, _ = fmt.Fprintf(w, "%s: %s\n", name, v)
		}
	}
	if r.ContentLength > 0 {
		_, _ = io.WriteString(w, "\n")
		_, _ = io.Copy(w, io.LimitReader(r.Body, MaxBody))
		_, _ = io.WriteString(w, "\n")
	}
}
