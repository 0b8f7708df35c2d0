package apisix

import "testing"

func TestInlineUpstream(t *testing.T) {
	for doc, want := range map[string]string{
		`{"nodes":{"a:1":1}}`:                                       "pass",
		`{"nodes":{"a:1":1},"pass_host":"node"}`:                    "domain",
		`{"nodes":{"a:1":1},"pass_host":"node","scheme":"https"}`:   "node",
		`{"nodes":{"a:1":1},"pass_host":"rewrite","scheme":"http"}`: "rewrite",
	} {
		m, err := InlineUpstream([]byte(doc))
		if err != nil || m.PassHost != want {
			t.Errorf("%s: %+v, %v; want pass_host %s", doc, m, err, want)
		}
	}
	_, err := InlineUpstream([]byte(`{"nodes":{"a:1":1},"type":1}`))
	const want = `property "type" validation failed: wrong type: expected string, got number`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
