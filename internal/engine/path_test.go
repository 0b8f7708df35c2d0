package engine

import (
	"strings"
	"testing"
)

// TestPaths looks at which route matches and at what is forwarded, where paths
// are changed before matching (apisix-config.md §2).
func TestPaths(t *testing.T) {
	up := echo(t)
	for _, c := range []struct {
		name  string
		paths Paths
		cases [][3]string // target, name of the route or status, forwarded target
	}{
		{"as they are", Paths{}, [][3]string{
			{"/a/", "404", ""}, {"/a;x", "404", ""}, {"/p/x%2Fy", "404", ""}, {"/p/x", "p", "/p/x"},
		}},
		{"delete_uri_tail_slash", Paths{DeleteTailSlash: true}, [][3]string{
			{"/a/", "a", "/a/"}, {"/a/?q=/", "a", "/a/?q=/"}, {"/a", "a", "/a"}, {"/a//", "a", "/a/"}, {"/", "root", "/"}, {"/b/../a/", "a", "/a/"},
		}},
		{"normalize_uri_like_servlet", Paths{LikeServlet: true}, [][3]string{
			{"/a;x=1", "a", "/a;x=1"}, {"/a;x=1?q=;", "a", "/a;x=1?q=;"}, {"/p;v/x;w", "p", "/p;v/x;w"}, {"/a;x/", "404", ""}, {"/;x", "root", "/;x"},
			{"/;/a", "400", ""}, {"/%2e;", "400", ""}, {"/%2E%2E;", "400", ""}, {"/.;", "400", ""}, {"/..;", "400", ""}, {"/%2E%2e;x/a", "400", ""},
			{"/b/;/c", "400", ""}, {"/%252e;/a", "400", ""}, {"/%252e%252E;", "400", ""}, {"/a%3Bx", "a", "/a%3Bx"},
		}},
		{"both", Paths{LikeServlet: true, DeleteTailSlash: true}, [][3]string{{"/a/", "404", ""}, {"/a;x", "a", "/a;x"}}},
		{"match_uri_encoded_slash", Paths{MatchEncodedSlash: true}, [][3]string{
			{"/p/x%2Fy", "p", "/p/x%2Fy"}, {"/p/x%2fy%41", "p", "/p/x%2fy%41"}, {"/p/%20", "p", "/p/%20"}, {"/p/x%2Fy/../z", "404", ""},
			{"/p/x?%2F", "p", "/p/x?%2F"}, {"/%2F", "root", "/"}, {"/%61", "a", "/%61"},
		}},
		{"encoded slash and tail", Paths{MatchEncodedSlash: true, DeleteTailSlash: true}, [][3]string{
			{"/p/x%2Fy", "p", "/p/x%2Fy"}, {"/p/x%2Fy/", "404", ""},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := startParameters(t, func(cfg *Config) { cfg.Paths = c.paths })
			for name, uri := range map[string]string{"a": "/a", "p": "/p/:id", "root": "/"} {
				g.put("routes/"+name, route(uri, up.addr, `,"plugins":{"probe":{"route":"`+name+`"}}`))
			}
			for _, x := range c.cases {
				r, body := g.get(x[0])
				got := r.Header.Get("X-Route")
				if got == "" {
					got = r.Status[:3]
				}
				forwarded := ""
				if got == x[1] && x[2] != "" {
					_, rest, _ := strings.Cut(body, " ")
					forwarded, _, _ = strings.Cut(rest, " ")
				}
				if got != x[1] || forwarded != x[2] {
					t.Errorf("%s: route %s, forwarded %q; want %s, %q", x[0], got, forwarded, x[1], x[2])
				}
			}
		})
	}
}

func TestURIParam(t *testing.T) {
	up := echo(t)
	g := startParameters(t, func(cfg *Config) { cfg.Paths.MatchEncodedSlash = true })
	g.put("routes/1", route("/p/:id/*rest", up.addr, `,"plugins":{"probe":{"route":"1","_meta":{"filter":[["uri_param_id","==","x%2Fy"],["uri_param_rest","~~","^z/"]]}}}`))
	for target, want := range map[string]string{"/p/x%2fy/z/1": "1", "/p/x%2Fy/1": "", "/p/x/z/1": ""} {
		if r, _ := g.get(target); r.StatusCode != 200 || r.Header.Get("X-Route") != want {
			t.Errorf("%s: %d, %q, want %q", target, r.StatusCode, r.Header.Get("X-Route"), want)
		}
	}
}
