package threescale

import "testing"

func TestBelow(t *testing.T) {
	for _, x := range []struct{ url, path, root, query string }{
		{"http://a", "/x", "/x", ""},
		{"http://a", "x", "/x", ""},
		{"http://a/", "//x", "/x", ""},
		{"http://a/b", "/x/", "/b/x/", ""},
		{"http://a/b/?q=1", "x", "/b/x", ""},
		{"http://a/b?q=1", "x?y=2", "/b/x", "q=1"},
		{"http://a/b?q=1", "", "/b", ""},
		{"http://a/%20", "/%2f%zz% ", "/%20/%2f%25zz%25%20", ""},
	} {
		u, err := NewUpstream(x.url)
		if err != nil {
			t.Fatal(err)
		}
		root := u.Root
		if got := u.Below(x.path); got.Root != x.root || got.Query != x.query || u.Root != root {
			t.Errorf("%s below %s: %q, %q", x.path, x.url, got.Root, got.Query)
		}
	}
}
