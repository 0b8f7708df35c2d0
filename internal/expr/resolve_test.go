package expr

import (
	"testing"

	"weir/internal/plugin/plugintest"
)

func TestResolve(t *testing.T) {
	for _, c := range []struct {
		text, want string
		resolved   int
	}{
		{"plain", "plain", 0},
		{"$remote_addr", "127.0.0.1", 1},
		{"$remote_addr:$http_none", "127.0.0.1:", 1},
		{"a $http_none b", "a  b", 0},
		{"${http_none ?? x} $http_empty;", "x ;", 2},
	} {
		tpl, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		ctx := plugintest.NewCtx("/", [2]string{"empty", ""})
		if got, n := tpl.Resolve(nil, ctx); string(got) != c.want || n != c.resolved {
			t.Errorf("%q: got %q, %d; want %q, %d", c.text, got, n, c.want, c.resolved)
		}
	}
}
