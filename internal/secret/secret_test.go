package secret

import "testing"

func TestResolve(t *testing.T) {
	env := Env{Lookup: func(name string) (string, bool) {
		v, ok := map[string]string{"KEY": "k1", "DOC": `{"a":"x\"y","n":1}`, "EMPTY": ""}[name]
		return v, ok
	}}
	for _, c := range []struct{ raw, want string }{
		{`{"key":"plain"}`, `{"key":"plain"}`},
		{`{"key":"$env://KEY"}`, `{"key":"k1"}`},
		{`{"key":"$ENV://KEY","in":[{"x":"$env://DOC/a"}]}`, `{"key":"k1","in":[{"x":"x\"y"}]}`},
		{`{"key":"$env://EMPTY"}`, `{"key":""}`},
		{`{"key":"$env://MISSING"}`, `{"key":"$env://MISSING"}`},
		{`{"key":"$env://DOC/n"}`, `{"key":"$env://DOC/n"}`},
		{`{"key":"$env://DOC/none"}`, `{"key":"$env://DOC/none"}`},
		{`{"key":"a $env://KEY"}`, `{"key":"a $env://KEY"}`},
		{`{"key":`, `{"key":`},
	} {
		if got := string(env.Resolve([]byte(c.raw))); got != c.want {
			t.Errorf("%s: %s, want %s", c.raw, got, c.want)
		}
	}
}
