package engine

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"weir/internal/plugin"
	"weir/internal/router"
)

// A crash is where the plugin boom panics.
type crash struct {
	At string `json:"at" doc:"Phase to panic in."`
}

type crashingFilter struct{ at string }

func (f crashingFilter) Write(p []byte, _ bool) []byte {
	if f.at == "write" {
		panic(f.at)
	}
	return p
}

func (f crashingFilter) Close() {
	if f.at == "close" {
		panic(f.at)
	}
}

// boom is a guard that panics wherever it is asked to.
var boom = plugin.Define(plugin.Meta{Name: "boom", Priority: 10, Guard: true, Doc: "Test plugin."},
	func(c *crash, _ plugin.Env) (plugin.Phases, error) {
		at := func(phase string) {
			if c.At == phase {
				panic(phase)
			}
		}
		request := func(phase string) func(*plugin.Ctx) *plugin.Reply {
			return func(*plugin.Ctx) *plugin.Reply { at(phase); return nil }
		}
		return plugin.Phases{
			Rewrite: request("rewrite"), Access: request("access"), BeforeProxy: request("before_proxy"),
			Header: func(*plugin.Ctx) { at("header") },
			Body:   func(*plugin.Ctx) plugin.BodyFilter { at("body"); return crashingFilter{c.At} },
			Encode: func(*plugin.Ctx) plugin.BodyFilter { at("encode"); return nil },
			Log:    func(*plugin.Ctx) { at("log") },
		}, nil
	})

// A journal is a log as JSON lines.
type journal struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.Write(p)
}

// take returns the line that has such a message, and forgets all.
func (j *journal) take(messages ...string) (line map[string]any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for text := range bytes.Lines(j.all.Bytes()) {
		var fields map[string]any
		if json.Unmarshal(text, &fields) != nil {
			continue
		}
		for _, m := range messages {
			if fields["msg"] == m {
				line = fields
			}
		}
	}
	if line != nil {
		j.all.Reset()
	}
	return line
}

// TestPanicOfAGuard: whatever phase of a guard panics, the request alone is lost,
// nothing passes that the guard has not let pass, the log names route, plugin and
// its owner, and the gateway goes on.
func TestPanicOfAGuard(t *testing.T) {
	for _, tc := range []struct {
		at     string
		status int // 0: the answer is cut
		passes bool
	}{
		{"rewrite", 500, false}, {"access", 500, false}, {"before_proxy", 500, false},
		{"header", 500, true}, {"body", 500, true}, {"encode", 500, true},
		{"write", 0, true}, {"close", 200, true}, {"log", 200, true},
	} {
		t.Run(tc.at, func(t *testing.T) {
			up := echo(t)
			lines := new(journal)
			g := startPlugins(t, router.HostURI, func(c *Config) { c.Log = slog.New(slog.NewJSONHandler(lines, nil)) }, []plugin.Spec{boom, probePlugin})
			g.put("routes/broken", route("/x", up.addr, `,"plugins":{"boom":{"at":"`+tc.at+`"},"probe":{}}`),
				"routes/fine", route("/fine", up.addr, `,"plugins":{"boom":{},"probe":{}}`))
			c := g.dial()
			c.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
			r, err := http.ReadResponse(c.r, &http.Request{Method: "GET"})
			switch {
			case err != nil && tc.status != 0 && tc.status != 500:
				t.Errorf("no answer: %v", err)
			case err == nil && r.StatusCode != max(tc.status, 500) && r.StatusCode != tc.status:
				t.Errorf("status %d, want %d", r.StatusCode, tc.status)
			}
			if passed := len(up.heads()) > 0; passed != tc.passes {
				t.Errorf("reached the upstream: %v, want %v", passed, tc.passes)
			}
			var line map[string]any
			await(t, "the log", func() bool {
				line = lines.take("a request was lost to a panic", "a log phase panicked", "a body filter panicked at its end")
				return line != nil
			})
			if line["route"] != "broken" || line["plugin"] != "boom" || line["owner"] != "routes/broken" {
				t.Errorf("the log names route %v, plugin %v, owner %v", line["route"], line["plugin"], line["owner"])
			}
			if r, _ := g.get("/fine"); r.StatusCode != 200 {
				t.Errorf("afterwards: status %d", r.StatusCode)
			}
		})
	}
}

type crashingTap struct{}

func (crashingTap) See([]byte) { panic("see") }

// TestPanicOfATap: a plugin that panics at the sight of a body, which another
// goroutine uploads, loses sight of it, and nothing else is lost.
func TestPanicOfATap(t *testing.T) {
	up := echo(t)
	lines := new(journal)
	tap := plugin.Define(plugin.Meta{Name: "tap", Doc: "Test plugin."}, func(*struct{}, plugin.Env) (plugin.Phases, error) {
		return plugin.Phases{Access: func(c *plugin.Ctx) *plugin.Reply { c.TapBody(crashingTap{}); return nil }}, nil
	})
	g := startPlugins(t, router.HostURI, func(c *Config) { c.Log = slog.New(slog.NewJSONHandler(lines, nil)) }, []plugin.Spec{tap})
	g.put("routes/tapped", route("/x", up.addr, `,"plugins":{"tap":{}}`))
	c := g.dial()
	c.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n%s", strings.Repeat("x", 300_000))
	if r, _ := c.answer("POST"); r.StatusCode != 200 {
		t.Errorf("status %d, want 200", r.StatusCode)
	}
	if line := lines.take("a plugin panicked at a request's body"); line["route"] != "tapped" {
		t.Errorf("the log says %v", line)
	}
}
