package management

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"weir/internal/model"
	"weir/internal/source/portal"
)

// FuzzAnswer: whatever is asked, the answer is one of those that there are, and in the
// mode that only tells nothing is changed.
func FuzzAnswer(f *testing.F) {
	for _, s := range [][3]string{
		{"GET", "//status//ready/", ""}, {"POST", "/config", `{"services":[{"id":1,"proxy":{"hosts":["a"]}},null]}`}, {"PUT", "/config", `{"services":[{"id":{}}],"oidc":[{}]}`},
		{"DELETE", "/config/", ""}, {"GET", "/policies", ""}, {"POST", "/boot", ""}, {"GET", "/%00", ""}, {"GET", "/dns/cache", ""},
	} {
		f.Add(s[0], s[1], s[2])
	}
	src, err := portal.New(portal.Config{Idle: true})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, first := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		ended <- src.Run(ctx, func(model.Delta) error {
			select {
			case first <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	<-first
	f.Cleanup(func() {
		cancel()
		<-ended
	})
	api := func(mode string) *API {
		return New(Config{
			Mode: mode, Source: src, Manifests: func() json.RawMessage { return json.RawMessage(`{}`) },
			Names: func() json.RawMessage { return json.RawMessage(`{}`) }, Faults: func() map[string]string { return nil },
		})
	}
	debug, status := api(Debug), api(Status)
	f.Fuzz(func(t *testing.T, method, path, body string) {
		if strings.Contains(body, "issuer") {
			return // it would be asked
		}
		loads := src.Status().Loads
		read := func(int64) ([]byte, error) { return []byte(body), nil }
		told := status.Answer(ctx, "", method, path, read)
		if src.Status().Loads != loads {
			t.Errorf("%s %s changes something", method, path)
		}
		for _, a := range []Answer{told, debug.Answer(ctx, "", method, path, read)} {
			if a.Status < 200 || a.Status > 500 || strings.HasPrefix(a.Type, "application/json") && !json.Valid(a.Body) {
				t.Errorf("%s %s %q: %d %s %s", method, path, body, a.Status, a.Type, a.Body)
			}
		}
	})
}
