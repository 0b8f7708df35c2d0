package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrongControl: what answers in the Control API's place, or stops answering, costs a
// command no more than an error: no endless memory, nothing that the terminal obeys.
func TestWrongControl(t *testing.T) {
	endless := bytes.Repeat([]byte("x"), 1<<20)
	dir := t.TempDir()
	for name, c := range map[string]struct {
		answers http.HandlerFunc
		says    string
	}{
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for range maxControl>>20 + 8 {
				if _, err := w.Write(endless); err != nil {
					return
				}
			}
		}, "sends more than"},
		"endless refusal": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
			_, _ = fmt.Fprintf(w, "\x1b[2Jno%s", endless)
		}, "status 404"},
		"stops in the middle": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = fmt.Fprint(w, `{"type":"cpu",`)
		}, "unexpected EOF"},
		"closes": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "cannot be reached"},
		"page":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>") }, ""},
		"empty":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "{}") }, ""},
		"other types": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, `{"type":"cpu","cores":-1,"windows":[{"length_ns":-9223372036854775808}],"calls":{"functions":[{}]},"profile":"H4sIAAAAAAAA/w=="}`)
		}, ""},
	} {
		server := httptest.NewServer(c.answers)
		defer server.Close()
		for _, args := range [][]string{
			{"profile", "--seconds", "0.1", "--html", filepath.Join(dir, "f.html"), "--control", server.URL},
			{"profile", "--seconds", "0.1", "-o", "json", "--control", server.URL},
			{"diagnose", "--seconds", "0.1", "--html", filepath.Join(dir, "d.html"), "--control", server.URL},
			{"explain", "http://h/a", "--control", server.URL},
		} {
			if args[0] == "explain" && c.says == "" {
				continue // what it shows then is an empty explanation
			}
			var out, note bytes.Buffer
			cmd := command()
			cmd.SetArgs(args)
			cmd.SetOut(&out)
			cmd.SetErr(&note)
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v: %v", name, args[:1], err)
				continue
			}
			if said := err.Error(); len(said) > 2000 || strings.ContainsRune(said, '\x1b') {
				t.Errorf("%s: %v says %d bytes: %.300q", name, args[:1], len(said), said)
			}
		}
	}
}
