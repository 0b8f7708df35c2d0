package plugin_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/wire"
)

func response(length int64, fields ...string) *plugin.Ctx {
	c := &plugin.Ctx{Request: &wire.Request{Method: "GET", Proto: wire.HTTP11}, Response: &wire.Response{Status: 200, Length: length}}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		c.Response.Header.Add(name, value)
	}
	return c
}

func TestSuits(t *testing.T) {
	s := schema.Of[plugin.Compression]()
	for _, c := range []struct {
		conf string
		ctx  *plugin.Ctx
		want bool
	}{
		{`{}`, response(20, "Content-Type: text/html"), true},
		{`{}`, response(19, "Content-Type: text/html"), false},
		{`{}`, response(wire.Chunked, "Content-Type: text/html; charset=utf-8"), true},
		{`{}`, response(100), false},
		{`{}`, response(100, "Content-Type: text/plain"), false},
		{`{"types":["a/b","text/plain"],"min_length":1}`, response(1, "Content-Type: text/plain"), true},
		{`{"types":"*"}`, response(100, "Content-Type: x/y"), true},
		{`{"types":"*"}`, response(100, "Content-Type: x/y", "Content-Encoding: br"), false},
	} {
		k := new(plugin.Compression)
		if err := s.Decode([]byte(c.conf), k); err != nil {
			t.Fatal(err)
		}
		if got := k.Suits(c.ctx); got != c.want {
			t.Errorf("%s: %v for %+v", c.conf, got, c.ctx.Response)
		}
		for _, change := range []func(*plugin.Ctx){
			func(c *plugin.Ctx) { c.Request.Proto = wire.HTTP10 },
			func(c *plugin.Ctx) { c.Request.Method = "HEAD" },
			func(c *plugin.Ctx) { c.Response.Status = 304 },
			func(c *plugin.Ctx) { c.Response.Status = 206 },
		} {
			request, response := *c.ctx.Request, *c.ctx.Response
			if change(c.ctx); k.Suits(c.ctx) {
				t.Errorf("%s: suits %s %d", c.conf, c.ctx.Request.Method, c.ctx.Response.Status)
			}
			*c.ctx.Request, *c.ctx.Response = request, response
		}
	}
	old := response(100, "Content-Type: text/html")
	old.Request.Proto = wire.HTTP10
	k := new(plugin.Compression)
	if err := s.Decode([]byte(`{"http_version":1.0}`), k); err != nil || !k.Suits(old) {
		t.Error("HTTP/1.0 is not old enough", err)
	}
	for _, bad := range []string{`{"types":[]}`, `{"types":"a/b"}`, `{"types":[""]}`, `{"http_version":2}`, `{"min_length":0}`} {
		if err := s.Check(json.RawMessage(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestAcceptsCoding(t *testing.T) {
	for _, c := range []struct {
		header     string
		named, any bool
	}{
		{"gzip", true, true},
		{"deflate, GZIP;q=0.5", true, true},
		{"gzip; q=0", false, false},
		{"gzip;q=0.000, *", false, false},
		{"gzip;q=x", false, false},
		{"*", false, true},
		{"*;q=0", false, false},
		{"br", false, false},
		{"xgzip", false, false},
		{"", false, false},
	} {
		ctx := response(0)
		ctx.Request.Header.Add("Accept-Encoding", c.header)
		if ctx.AcceptsCoding("gzip", false) != c.named || ctx.AcceptsCoding("gzip", true) != c.any {
			t.Errorf("%q", c.header)
		}
	}
}

func TestEncoded(t *testing.T) {
	for tag, want := range map[string]string{`"a"`: `W/"a"`, `W/"a"`: `W/"a"`, `a`: "", `"`: "", `""`: `W/""`, `"a"b"`: ""} {
		c := response(0, "ETag: "+tag, "Accept-Ranges: bytes")
		c.Encoded("gzip")
		got, _ := c.Response.Header.Get("ETag")
		coding, _ := c.Response.Header.Get("Content-Encoding")
		if _, ranges := c.Response.Header.Get("Accept-Ranges"); got != want || coding != "gzip" || ranges {
			t.Errorf("%s became %s", tag, got)
		}
	}
	c := response(0, "ETag: 1", "Last-Modified: 1", "Content-Encoding: br", "X: 1")
	c.BodyChanged()
	if text := string(c.Response.Header.AppendTo(nil)); text != "X: 1\r\n" {
		t.Errorf("%q", text)
	}
}

func TestEncoders(t *testing.T) {
	e := plugin.NewEncoders(func() plugin.Encoder { return gzip.NewWriter(nil) })
	for range 3 {
		f := e.Open(response(wire.Chunked))
		// What was written is readable before more comes.
		in, out := io.Pipe()
		got := make(chan string, 2)
		go func() {
			z, err := gzip.NewReader(in)
			if err != nil {
				got <- err.Error()
				return
			}
			b := make([]byte, 6)
			io.ReadFull(z, b)
			got <- string(b)
			rest, err := io.ReadAll(z)
			if err != nil {
				got <- err.Error()
			}
			got <- string(rest)
		}()
		out.Write(f.Write([]byte("data: "), false))
		if s := <-got; s != "data: " {
			t.Errorf("%q", s)
		}
		out.Write(f.Write([]byte("1"), false))
		out.Write(f.Write(nil, true))
		out.Close()
		if s := <-got; s != "1" {
			t.Errorf("%q", s)
		}
		f.(interface{ Close() }).Close()
	}
	known := response(1 << 20)
	f := e.Open(known)
	if n := len(f.Write([]byte("some text"), false)); n > 10 {
		t.Errorf("%d bytes at once for a body of known length", n)
	}
}
