package threescale

import "testing"

func TestQuery(t *testing.T) {
	for _, x := range []struct {
		from string
		do   func(*Query)
		want string
	}{
		{"a=1&b=2", func(*Query) {}, "a=1&b=2"},
		{"a=x+y%2Fz&&=x&b", func(*Query) {}, "a=x%20y%2Fz&b"},
		{"a=1&b=2&a=3", func(q *Query) { q.Set("a", "n") }, "a=n&b=2"},
		{"b=2", func(q *Query) { q.Set("a", "") }, "b=2&a="},
		{"a=1&b=2&a=3&c=4", func(q *Query) { q.Push("a", "n") }, "a=1&b=2&a=3&a=n&c=4"},
		{"", func(q *Query) { q.Push("a", "n m") }, "a=n%20m"},
		{"a&b=2", func(q *Query) { q.Add("a", "n"); q.Add("c", "n") }, "a&a=n&b=2"},
		{"a=1&b=2&a=3", func(q *Query) { q.Delete("a"); q.Delete("c") }, "b=2"},
		{"a=%zz", func(*Query) {}, "a=%25zz"},
	} {
		q := ParseQuery(x.from)
		x.do(q)
		if got := q.String(); got != x.want {
			t.Errorf("%s: %s, want %s", x.from, got, x.want)
		}
	}
}

func FuzzQuery(f *testing.F) {
	f.Add("a=1&b&c=%20+&=")
	f.Fuzz(func(t *testing.T, s string) {
		once := ParseQuery(s).String()
		if twice := ParseQuery(once).String(); twice != once {
			t.Errorf("%q, then %q", once, twice)
		}
	})
}
