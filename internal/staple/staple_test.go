package staple

import (
	"bytes"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ocsp"
)

func TestCheck(t *testing.T) {
	root := issue(t, nil, ca)
	between := issue(t, root, ca)
	other := issue(t, nil, ca)
	leaf := issue(t, between, nil)
	deputy := issue(t, between, delegate)
	expired := issue(t, between, func(c *x509.Certificate) { delegate(c); c.NotAfter = time.Now().Add(-time.Minute) })
	neighbour := issue(t, between, nil)
	stranger := issue(t, other, delegate)
	revoked := func(r *ocsp.Response) { r.Status, r.RevokedAt = ocsp.Revoked, time.Now().Add(-time.Hour) }
	for _, tc := range []struct {
		name              string
		by, with, about   *identity
		edit              func(*ocsp.Response)
		strict, believing error // nil: taken; errAny: some reason
	}{
		{"by the issuer", between, nil, leaf, nil, nil, nil},
		{"by the issuer, whose certificate comes along", between, between, leaf, nil, nil, nil},
		{"by whom the issuer lets answer", deputy, deputy, leaf, nil, nil, nil},
		{"by whom the issuer let answer once", expired, expired, leaf, nil, errDelegate, nil},
		{"by any other certificate of the issuer", neighbour, neighbour, leaf, nil, errDelegate, nil},
		{"by whom another issuer lets answer", stranger, stranger, leaf, nil, errAny, nil},
		{"by the issuer's issuer", root, nil, leaf, nil, errAny, nil},
		{"about another certificate", between, nil, neighbour, nil, errAny, errAny},
		{"revoked", between, nil, leaf, revoked, ErrStatus, nil},
		{"unknown", between, nil, leaf, func(r *ocsp.Response) { r.Status = ocsp.Unknown }, ErrStatus, nil},
		{"over", between, nil, leaf, func(r *ocsp.Response) { r.NextUpdate = time.Now().Add(-time.Second) }, errLate, errLate},
		{"not begun", between, nil, leaf, func(r *ocsp.Response) { r.ThisUpdate = time.Now().Add(time.Hour) }, errEarly, errEarly},
		{"without an end", between, nil, leaf, func(r *ocsp.Response) { r.NextUpdate = time.Time{} }, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var with *x509.Certificate
			if tc.with != nil {
				with = tc.with.cert
			}
			der := respond(t, tc.about, between, tc.by, with, tc.edit)
			for trusting, want := range map[bool]error{false: tc.strict, true: tc.believing} {
				a, err := check(der, leaf.cert, between.cert, trusting, time.Now())
				if (err == nil) != (want == nil) || want != nil && !errors.Is(want, errAny) && !errors.Is(err, want) {
					t.Errorf("trusting %v: %v", trusting, err)
				}
				if err == nil && (!bytes.Equal(a.der, der) || !a.until.After(time.Now())) {
					t.Errorf("until %v, %d bytes", a.until, len(a.der))
				}
			}
		})
	}
	for _, der := range [][]byte{nil, []byte("no answer"), {0x30, 3, 0x0a, 1, 3} /* tryLater */} {
		if _, err := check(der, leaf.cert, between.cert, true, time.Now()); err == nil {
			t.Errorf("%x passes", der)
		}
	}
}

var errAny = errors.New("any")

// In virtual time: what a responder says is used for its time, or until it says
// something else; while it fails, the last good answer serves until it ends.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := issue(t, nil, ca)
		leaf := issue(t, root, at("http://ocsp.test/"))
		r := new(responder)
		s := newStapler(t, r)
		defer s.Close()
		lasting := func(d time.Duration) func(*ocsp.Response) {
			return func(o *ocsp.Response) { o.NextUpdate = time.Now().Add(d) }
		}
		held := hold(t, s, Options{TTL: time.Hour}, leaf, root)
		synctest.Wait()
		if held.Response() != nil || r.asked.Load() != 1 {
			t.Fatalf("before the first answer: asked %d times", r.asked.Load())
		}
		first := respond(t, leaf, root, root, nil, lasting(10*time.Hour))
		r.says(first)
		pass(firstPause)
		expect(t, held, first, "the first answer")
		q := r.last.Load()
		if q.Method != http.MethodPost || q.Header.Get("Content-Type") != "application/ocsp-request" {
			t.Errorf("asked with %s %v", q.Method, q.Header)
		}
		if about, err := ocsp.ParseRequest(*r.body.Load()); err != nil || about.SerialNumber.Cmp(leaf.cert.SerialNumber) != 0 {
			t.Errorf("asked about %v, %v", about, err)
		}

		second := respond(t, leaf, root, root, nil, lasting(10*time.Hour))
		r.says(second)
		pass(50 * time.Minute)
		expect(t, held, first, "within the ttl")
		pass(10 * time.Minute)
		expect(t, held, second, "after the ttl")

		r.answer.Store(nil)
		pass(8 * time.Hour)
		expect(t, held, second, "while the responder fails")
		pass(time.Hour)
		expect(t, held, nil, "after its end")
		third := respond(t, leaf, root, root, nil, lasting(time.Hour))
		r.says(third)
		pass(longPause)
		expect(t, held, third, "after the responder is back")

		before := r.asked.Load()
		fourth := respond(t, leaf, root, root, nil, lasting(2*time.Hour))
		r.says(fourth)
		pass(30 * time.Minute) // half of what it is valid
		expect(t, held, fourth, "in good time before the end")
		if n := r.asked.Load() - before; n != 1 {
			t.Errorf("asked %d times for one answer", n)
		}

		r.says(respond(t, leaf, root, root, nil, func(o *ocsp.Response) { o.Status = ocsp.Revoked; lasting(10 * time.Hour)(o) }))
		pass(time.Hour)
		expect(t, held, nil, "after it was revoked")
		held.Release()
	})
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func hold(t *testing.T, s *Stapler, o Options, ids ...*identity) *Staple {
	t.Helper()
	held, err := s.Hold(chain(ids...), o)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func expect(t *testing.T, s *Staple, want []byte, when string) {
	t.Helper()
	if got := s.Response(); !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, want %d", when, len(got), len(want))
	}
}

// What several hold is asked for once, lives until the last one lets go, and
// then no more.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := issue(t, nil, ca)
		leaf := issue(t, root, at("http://ocsp.test/"))
		r := new(responder)
		r.says(respond(t, leaf, root, root, nil, func(o *ocsp.Response) { o.NextUpdate = time.Now().Add(100 * time.Hour) }))
		s := newStapler(t, r)
		defer s.Close()
		one := hold(t, s, Options{TTL: time.Hour}, leaf, root)
		synctest.Wait()
		two := hold(t, s, Options{TTL: time.Minute}, leaf, root)
		if one != two {
			t.Error("two staples for one certificate")
		}
		synctest.Wait()
		if n := r.asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		one.Release()
		pass(time.Hour + time.Minute)
		asked := r.asked.Load()
		if asked < 3 {
			t.Errorf("asked %d times, the last time after the ttl of the last one to hold it", asked)
		}
		two.Release()
		pass(time.Hour)
		if n := r.asked.Load(); n != asked || len(s.staples) != 0 {
			t.Errorf("asked %d times more though nobody holds it", n-asked)
		}
	})
}

func TestCannotHold(t *testing.T) {
	root, other := issue(t, nil, ca), issue(t, nil, ca)
	s := newStapler(t, new(responder))
	for _, tc := range []struct {
		name string
		ids  []*identity
		want error
	}{
		{"no chain", []*identity{issue(t, root, at("http://a.test"))}, ErrNoIssuer},
		{"another's chain", []*identity{issue(t, root, at("http://a.test")), other}, ErrNoIssuer},
		{"no responder", []*identity{issue(t, root, nil), root}, ErrNoResponder},
	} {
		if _, err := s.Hold(chain(tc.ids...), Options{TTL: time.Hour}); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// Over sockets: one responder is not there, one says nothing useful, one says too
// much, the last one answers.
func TestFetch(t *testing.T) {
	root := issue(t, nil, ca)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	useless := httptest.NewServer(http.NotFoundHandler())
	defer useless.Close()
	large := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, maxAnswer+1))
	}))
	defer large.Close()
	good := new(responder)
	serves := httptest.NewServer(good)
	defer serves.Close()
	leaf := issue(t, root, at("http://"+gone.Addr().String(), "ldap://a.test", useless.URL, large.URL, serves.URL))
	good.says(respond(t, leaf, root, root, nil, nil))
	s := newStapler(t, nil)
	a, err := s.fetch(t.Context(), leaf.cert, root.cert, false)
	if err != nil || !bytes.Equal(a.der, *good.answer.Load()) {
		t.Error(err)
	}
	good.answer.Store(nil)
	if _, err = s.fetch(t.Context(), leaf.cert, root.cert, false); err == nil {
		t.Error("no responder answered, and there is an answer")
	}
}

// A responder that never answers holds nobody up: neither who wants to send an
// answer nor who ends the asking.
func TestSilentResponder(t *testing.T) {
	root := issue(t, nil, ca)
	asked, stop := make(chan struct{}, 1), make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-stop
	}))
	defer silent.Close()
	defer close(stop)
	s := newStapler(t, nil)
	held := hold(t, s, Options{TTL: time.Hour}, issue(t, root, at(silent.URL)), root)
	<-asked
	expect(t, held, nil, "while the responder thinks")
	held.Release()
	s.Close()
}
