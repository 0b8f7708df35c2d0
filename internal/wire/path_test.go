package wire

import (
	"strings"
	"testing"
)

func TestNormalizePath(t *testing.T) {
	const enc, seg = ChangedEncoding, ChangedSegments
	for _, c := range []struct {
		target, want string
		changed      Change
	}{
		{"/", "/", 0},
		{"/a/b?c=/../%zz//", "/a/b", 0},
		{"*", "*", 0},
		{"/a%20b", "/a b", enc},
		{"/a%2Fb%2f", "/a/b/", enc},
		{"/%41%c3%BC", "/Aü", enc},
		{"/a%3Fb%23c%25d%2e", "/a?b#c%d.", enc},
		{"/%252e%252e/", "/%2e%2e/", enc},
		{"//", "/", seg},
		{"/a//b///c", "/a/b/c", seg},
		{"/a/.", "/a/", seg},
		{"/a/./", "/a/", seg},
		{"/./a", "/a", seg},
		{"/a/..", "/", seg},
		{"/a/../", "/", seg},
		{"/a/b/../c", "/a/c", seg},
		{"/a/b/../../c", "/c", seg},
		{"/a/b/..", "/a/", seg},
		{"/a//../b", "/b", seg},
		{"/a/%2e%2E/b", "/b", enc | seg},
		{"/a%2F..%2fb", "/b", enc | seg},
		{"/a/%2e", "/a/", enc | seg},
		{"/a%2F/b", "/a/b", enc | seg},
		{"/.a/..b/c./d../...", "/.a/..b/c./d../...", 0},
		{"/a/.b//.c", "/a/.b/.c", seg},
		{"/a;x=1/b+c\\d", "/a;x=1/b+c\\d", 0},
		{"/\xff", "/\xff", 0},
	} {
		dst := append(make([]byte, 0, 100), "kept"...)
		got, changed, ok := NormalizePath(dst, c.target, PathOptions{})
		if !ok || got != c.want || changed != c.changed || string(dst) != "kept" {
			t.Errorf("%q: %q %b %v, want %q %b", c.target, got, changed, ok, c.want, c.changed)
		}
		if got, _, _ := NormalizePath(nil, c.target, PathOptions{}); got != c.want {
			t.Errorf("%q without memory: %q", c.target, got)
		}
	}
	for _, bad := range []string{"", "?", "a", "/..", "/../a", "/a/../..", "/a/../../b", "/%2e%2e", "/%", "/%4", "/%4g", "/%g4", "/%00", "/a%2f..%2f..", "//..", "/./..", "*a", "h:80"} {
		if got, _, ok := NormalizePath(nil, bad, PathOptions{}); ok {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

func TestKeepSlashes(t *testing.T) {
	for target, want := range map[string]string{
		"/a//b": "/a//b", "//": "//", "/a//../b": "/a/b", "//../a": "/a", "/a/.//b": "/a//b", "/%2f": "//",
	} {
		if got, _, ok := NormalizePath(nil, target, PathOptions{KeepSlashes: true}); !ok || got != want {
			t.Errorf("%q: %q %v, want %q", target, got, ok, want)
		}
	}
}

func TestEscapePath(t *testing.T) {
	for c := range 256 {
		escaped := c <= ' ' || c >= 0x7f || strings.IndexByte("\"#%<>?\\^`{|}", byte(c)) >= 0
		if got := EscapePath(nil, string([]byte{byte(c)})); (len(got) == 3) != escaped {
			t.Errorf("%#x: %s", c, got)
		}
	}
	if got := string(EscapePath([]byte("x"), "/a b/\xc3\xbc")); got != "x/a%20b/%C3%BC" {
		t.Error(got)
	}
}

func TestEscapeControls(t *testing.T) {
	if got := string(EscapeControls([]byte("x"), "/a b?c=%20\r\n\x7f\xff#")); got != "x/a%20b?c=%20%0D%0A%7F\xff#" {
		t.Error(got)
	}
}

func FuzzNormalizePath(f *testing.F) {
	for _, s := range []string{"/", "/a/../b", "/%2e%2e/", "/a//b/./c", "/%25%3f%23", "/a/..%2f..", "/.../..a/", "//..", "/%00"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, target string, keep bool) {
		opts := PathOptions{KeepSlashes: keep}
		path, changed, ok := NormalizePath(nil, target, opts)
		if !ok || target == "*" {
			return
		}
		raw, _, _ := strings.Cut(target, "?")
		if (path == raw) != (changed == 0) {
			t.Errorf("%q became %q, changed %b", raw, path, changed)
		}
		if path[0] != '/' || strings.IndexByte(path, 0) >= 0 && strings.IndexByte(raw, 0) < 0 {
			t.Errorf("%q became %q", raw, path)
		}
		for segment := range strings.SplitSeq(path, "/") {
			if segment == "." || segment == ".." {
				t.Errorf("%q became %q", raw, path)
			}
		}
		if !keep && strings.Contains(path, "//") {
			t.Errorf("%q became %q", raw, path)
		}
		if strings.IndexByte(path, 0) >= 0 {
			return // cannot be escaped; the parser refuses it in a target
		}
		again, _, ok := NormalizePath(nil, string(EscapePath(nil, path)), opts)
		if !ok || again != path {
			t.Errorf("%q is read back as %q, %v", path, again, ok)
		}
	})
}
