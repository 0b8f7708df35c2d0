package brotli

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/wire"
)

var long = strings.Repeat("hello world ", 1000)

func compiled(tb testing.TB, conf string) plugin.Phases {
	tb.Helper()
	ph, err := Plugin.Compile([]byte(conf), plugintest.Env(time.Now))
	if err != nil {
		tb.Fatal(err)
	}
	return ph
}

func ctx(length int64, accept string) *plugin.Ctx {
	c := plugintest.NewCtx("/", [2]string{"Accept-Encoding", accept})
	c.Response = &wire.Response{Status: 200, Length: length}
	c.Response.Header.Add("Content-Type", "text/html")
	return c
}

func TestEncode(t *testing.T) {
	for level := 0; level <= 11; level++ {
		ph := compiled(t, fmt.Sprintf(`{"comp_level":%d,"vary":true,"lgwin":%d}`, level, []int{0, 19}[level%2]))
		for range 2 {
			c := ctx(wire.Chunked, "gzip, br")
			f := ph.Encode(c)
			if f == nil {
				t.Fatal("not compressed")
			}
			// A piece of a stream can be read before the next one comes.
			var out strings.Builder
			out.Write(f.Write([]byte(long[:100]), false))
			part := make([]byte, 100)
			if _, err := io.ReadFull(brotli.NewReader(strings.NewReader(out.String())), part); err != nil || string(part) != long[:100] {
				t.Errorf("level %d: %q %v", level, part, err)
			}
			out.Write(f.Write([]byte(long[100:]), false))
			out.Write(f.Write(nil, true))
			got, err := io.ReadAll(brotli.NewReader(strings.NewReader(out.String())))
			if err != nil || string(got) != long || out.Len() > len(long)/10 {
				t.Errorf("level %d: %d bytes became %d, then %d, %v", level, len(long), out.Len(), len(got), err)
			}
			f.(interface{ Close() }).Close()
			for name, want := range map[string]string{"Content-Encoding": "br", "Vary": "Accept-Encoding"} {
				if v, _ := c.Response.Header.Get(name); v != want {
					t.Errorf("%s: %q, want %q", name, v, want)
				}
			}
		}
	}
}

func TestNot(t *testing.T) {
	ph := compiled(t, `{"vary":true}`)
	for what, c := range map[string]*plugin.Ctx{
		"not accepted": ctx(100, "gzip"), "short": ctx(19, "br"), "refused": ctx(100, "br;q=0, *"), "nothing": ctx(100, ""),
	} {
		if ph.Encode(c) != nil {
			t.Errorf("%s: compressed", what)
		}
		if _, ok := c.Response.Header.Get("Vary"); ok {
			t.Errorf("%s: varies", what)
		}
	}
	if ph.Encode(ctx(100, "*")) == nil {
		t.Error("* is not br")
	}
}

func TestInvalid(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "mode", Config: `{"mode":4}`, Invalid: `property "mode" validation failed: expected 4 to be at most 2`},
		{Name: "level", Config: `{"comp_level":12}`, Invalid: `property "comp_level" validation failed: expected 12 to be at most 11`},
		{Name: "window", Config: `{"lgwin":100}`, Invalid: `property "lgwin" validation failed: matches none of the enum values`},
		{Name: "block", Config: `{"lgblock":8}`, Invalid: `property "lgblock" validation failed: matches none of the enum values`},
	})
}
