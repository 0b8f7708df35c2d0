package plugin

import "testing"

// What is taken for a client's address prints as one that is read alike.
func FuzzParseClient(f *testing.F) {
	for _, s := range []string{"1.1.1.1", "1.1.1.1:80", "[::1]:80", "::1", "[::1]", "::ffff:1.2.3.4", "[::ffff:1.2.3.4]", "fe80::1%x", "1.1.1.1:", ":1", "1.1.1.1:99999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, ok := ParseClient(text)
		if !ok {
			return
		}
		if !a.Addr().IsValid() {
			t.Fatalf("%q is an address that is none", text)
		}
		if b, again := ParseClient(a.Addr().String()); !again || b.Addr() != a.Addr() {
			t.Errorf("%q: %v, then %v", text, a, b)
		}
	})
}
