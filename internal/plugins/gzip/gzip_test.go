package gzip

import (
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/wire"
)

type h = map[string]string

var long = strings.Repeat("hello world ", 1000)

func compiled(tb testing.TB, conf string) plugin.Phases {
	tb.Helper()
	ph, err := Plugin.Compile([]byte(conf), plugintest.Env(time.Now))
	if err != nil {
		tb.Fatal(err)
	}
	return ph
}

func ctx(status int, length int64, accept string) *plugin.Ctx {
	c := plugintest.NewCtx("/", [2]string{"Accept-Encoding", accept})
	c.Response = &wire.Response{Status: status, Length: length}
	c.Response.Header.Add("Content-Type", "text/html; charset=utf-8")
	c.Response.Header.Add("ETag", `"x"`)
	return c
}

func TestEncode(t *testing.T) {
	for level := 1; level <= 9; level++ {
		ph := compiled(t, `{"comp_level":`+string(rune('0'+level))+`,"vary":true}`)
		c := ctx(200, int64(len(long)), "gzip")
		f := ph.Encode(c)
		if f == nil {
			t.Fatal("not compressed")
		}
		var out strings.Builder
		for i := 0; i < len(long); i += 1000 {
			out.Write(f.Write([]byte(long[i:min(i+1000, len(long))]), false))
		}
		out.Write(f.Write(nil, true))
		z, err := gzip.NewReader(strings.NewReader(out.String()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(z)
		if err != nil || string(got) != long || out.Len() > len(long)/10 {
			t.Errorf("level %d: %d bytes became %d, then %d, %v", level, len(long), out.Len(), len(got), err)
		}
		for name, want := range (h{"Content-Encoding": "gzip", "Vary": "Accept-Encoding", "ETag": `W/"x"`}) {
			if v, _ := c.Response.Header.Get(name); v != want {
				t.Errorf("%s: %q, want %q", name, v, want)
			}
		}
	}
}

func TestNot(t *testing.T) {
	ph := compiled(t, `{"vary":true}`)
	for what, c := range map[string]*plugin.Ctx{
		"not accepted": ctx(200, 100, "br"), "accepted by *": ctx(200, 100, "*"), "status": ctx(500, 100, "gzip"),
		"short": ctx(200, 19, "gzip"), "refused": ctx(200, 100, "gzip;q=0"),
	} {
		if ph.Encode(c) != nil {
			t.Errorf("%s: compressed", what)
		}
		if _, ok := c.Response.Header.Get("Content-Encoding"); ok {
			t.Errorf("%s: says that it is compressed", what)
		}
	}
	c := ctx(200, 100, "gzip")
	c.Request.Header.Add("Via", "1.1 cdn")
	if ph.Encode(c) != nil {
		t.Error("compressed for a proxy")
	}
	if v, _ := c.Response.Header.Get("Vary"); v != "Accept-Encoding" {
		t.Errorf("Vary: %q", v)
	}
}

func TestInvalid(t *testing.T) {
	const in = `property "buffers" validation failed: property `
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "types", Config: `{"types":[]}`, Invalid: `property "types" validation failed: object matches none of the required`},
		{Name: "version", Config: `{"http_version":2}`, Invalid: `property "http_version" validation failed: matches none of the enum values`},
		{Name: "level", Config: `{"comp_level":10}`, Invalid: `property "comp_level" validation failed: expected 10 to be at most 9`},
		{Name: "number", Config: `{"buffers":{"number":0}}`, Invalid: in + `"number" validation failed: expected 0 to be at least 1`},
		{Name: "size", Config: `{"buffers":{"size":0}}`, Invalid: in + `"size" validation failed: expected 0 to be at least 1`},
		{Name: "vary", Config: `{"vary":0}`, Invalid: `property "vary" validation failed: wrong type: expected boolean, got number`},
	})
}

// What a response costs once encoders are there.
func TestAllocations(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	ph := compiled(t, `{"types":"*"}`)
	c := ctx(200, int64(len(long)), "gzip")
	body, response := []byte(long), c.Response
	if n := testing.AllocsPerRun(100, func() {
		c.Reset()
		c.Response = response
		c.Response.Header.Reset()
		c.Response.Header.Add("Content-Type", "text/html")
		f := ph.Encode(c)
		f.Write(body, true)
		f.(interface{ Close() }).Close()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
