package keyring

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/document"
)

const first, second, long = "qeddd145sfvddff3", "edd1c9f0985e76a2", "0123456789abcdef0123456789ABCDEF"

func ring(t testing.TB, keys ...string) *Ring {
	t.Helper()
	r, err := New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The answers are those of openssl enc -aes-{128,256}-cbc -K KEY -iv KEY[:16];
// "bar" is in APISIX's own tests too.
func TestKnownAnswers(t *testing.T) {
	for _, c := range []struct{ key, plain, stored string }{
		{first, "auth-one", "4y+JvURBE6ZwRbbgaryrhg=="},
		{second, "auth-one", "RjeV6km+KxQJN2rfu8Y7aA=="},
		{second, "bar", "77+NmbYqNfN+oLm0aX5akg=="},
		{first, "", "CEGh183MAO3X8/ZV2jzHeA=="},
		{second, "0123456789abcdef", "uB5lc7bO3T325sSYkKpZM6bQ2Yb4ZwCTwDljNDbfVIo="},
		{long, "läuft", "aaYCyLdQuY63qXWv/yh7+w=="},
	} {
		r := ring(t, c.key)
		if got := r.Encrypt(c.plain); got != c.stored {
			t.Errorf("%q with %s: got %s, want %s", c.plain, c.key, got, c.stored)
		}
		if got, ok := r.Decrypt(c.stored); got != c.plain || !ok {
			t.Errorf("%s with %s: got %q, %v", c.stored, c.key, got, ok)
		}
	}
}

func TestRotation(t *testing.T) {
	old := ring(t, first).Encrypt("secret")
	r := ring(t, second, long, first)
	if got, ok := r.Decrypt(old); got != "secret" || !ok {
		t.Errorf("the old key does not decrypt: %q, %v", got, ok)
	}
	if got := r.Encrypt("secret"); got != ring(t, second).Encrypt("secret") {
		t.Error("not the first key encrypts")
	}
}

// With a wrong key first, the padding check alone would take 1 of 256.
func TestRotationNeverTakesGarbage(t *testing.T) {
	r, old := ring(t, second, first), ring(t, first)
	for i := range 20_000 {
		plain := fmt.Sprintf("a-secret-of-a-consumer-%d", i)
		if got, ok := r.Decrypt(old.Encrypt(plain)); got != plain || !ok {
			t.Fatalf("%q became %q, %v", plain, got, ok)
		}
	}
}

func TestDecryptLeavesWhatItDoesNotKnow(t *testing.T) {
	r := ring(t, first, second)
	for _, s := range []string{"", "plain", "$secret://vault/1/a/b", "YWJj", "AAAAAAAAAAAAAAAAAAAAAA==", ring(t, long).Encrypt("x"), "4y+JvURBE6ZwRbbgaryrhg"} {
		if got, ok := r.Decrypt(s); got != s || ok {
			t.Errorf("%q: got %q, %v", s, got, ok)
		}
	}
	for _, none := range []*Ring{nil, ring(t)} {
		if got, ok := none.Decrypt("x"); got != "x" || !ok || none.Encrypt("x") != "x" {
			t.Error("a ring without keys changes something")
		}
		if got := none.Open([]byte(`{"key":"x"}`), []string{"key"}); string(got) != `{"key":"x"}` {
			t.Errorf("got %s", got)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	_, err := New([]string{first, "short-secret"})
	if want := "data_encryption.keyring: key 2 has 12 bytes, not 16 or 32"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if strings.Contains(fmt.Sprint(err), "short-secret") {
		t.Error("the error shows the key")
	}
}

func TestFields(t *testing.T) {
	r := ring(t, second)
	const doc = `{"key":"bar","n":1,"list":["bar",2],"map":{"a":"bar"},"deep":[{"x":{"y":"bar"}}],"other":"bar"}`
	paths := []string{"key", "n", "list", "map", "deep.x.y", "missing", "key.below"}
	v, err := document.Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	r.EncryptFields(v, paths)
	want := strings.Replace(strings.ReplaceAll(doc, `"bar"`, `"77+NmbYqNfN+oLm0aX5akg=="`), `"other":"77+NmbYqNfN+oLm0aX5akg=="`, `"other":"bar"`, 1)
	if v.String() != want {
		t.Errorf("got  %s\nwant %s", v, want)
	}
	if got := r.Open([]byte(want), paths); string(got) != doc {
		t.Errorf("got  %s\nwant %s", got, doc)
	}
	if got := r.Open([]byte(`{"key":"bar"}`), []string{"key"}); string(got) != `{"key":"bar"}` {
		t.Errorf("what was never encrypted became %s", got)
	}
	if got := r.Open([]byte(`{"key"`), []string{"key"}); string(got) != `{"key"` {
		t.Errorf("what is not JSON became %s", got)
	}
}

func TestPrivateKeys(t *testing.T) {
	r := ring(t, first)
	const key = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n"
	stored := r.EncryptKey(key)
	if stored == key || r.EncryptKey(stored) != stored {
		t.Errorf("stored as %q, again as %q", stored, r.EncryptKey(stored))
	}
	for _, s := range []string{key, stored} {
		if got, ok := r.OpenKey(s); got != key || !ok {
			t.Errorf("%q: got %q, %v", s, got, ok)
		}
	}
	if _, ok := r.OpenKey("xyz"); ok {
		t.Error("what is no key was opened")
	}
}

func FuzzRing(f *testing.F) {
	f.Add("secret")
	f.Add("4y+JvURBE6ZwRbbgaryrhg==")
	r := ring(f, first, second)
	f.Fuzz(func(t *testing.T, s string) {
		stored := r.Encrypt(s)
		got, ok := r.Decrypt(stored)
		if strings.ToValidUTF8(s, "") == s && (got != s || !ok) {
			t.Errorf("%q became %q, %v", s, got, ok)
		}
		r.Decrypt(s)
	})
}

func BenchmarkOpen(b *testing.B) {
	r := ring(b, first, second)
	conf := []byte(`{"key":"` + r.Encrypt("auth-one-of-a-consumer") + `"}`)
	paths := []string{"key"}
	b.ReportAllocs()
	for b.Loop() {
		r.Open(conf, paths)
	}
}
