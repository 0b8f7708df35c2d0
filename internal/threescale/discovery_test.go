package threescale

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/wire"
)

// A realm is an issuer that can be asked.
type realm struct {
	key   *ecdsa.PrivateKey
	asked atomic.Int64
	id    atomic.Value  // of its key, a string
	down  atomic.Bool   // it fails
	slow  time.Duration // it takes
}

func newRealm(t *testing.T) *realm {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := &realm{key: key}
	r.id.Store("k1")
	return r
}

func (r *realm) discover(ctx context.Context, url string) (*model.OIDC, error) {
	r.asked.Add(1)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(r.slow):
	}
	if r.down.Load() {
		return nil, errors.New("down")
	}
	return &model.OIDC{Issuer: url, Algorithms: []string{"ES256"}, Keys: map[string]model.JWK{
		r.id.Load().(string): {JSON: publicJSON(&r.key.PublicKey)},
	}}, nil
}

func (r *realm) token(t *testing.T, id string) string {
	claims := fmt.Sprintf(`{"iss":%q,"sub":"a","aud":"b","exp":%d}`, issuerName, time.Now().Add(24*time.Hour).Unix())
	return sign(t, header("ES256", id), claims, "ES256", r.key)
}

// discovering begins a discovery in a bubble.
func discovering(t *testing.T, discover func(context.Context, string) (*model.OIDC, error)) *Discovery {
	rt := testRuntime()
	rt.Now = time.Now
	rt.Discover = discover
	env := plugintest.Env(time.Now)
	env.Context = t.Context()
	env.Product = &Product{Runtime: rt}
	d := DiscoverIssuer(env, issuerName)
	if DiscoverIssuer(env, issuerName) != d {
		t.Error("it is not shared")
	}
	t.Cleanup(env.Keep.Release)
	return d
}

func TestDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		r.slow = time.Second
		d := discovering(t, r.discover)
		begun := time.Now()
		if _, err := d.Verify(r.token(t, "k1"), time.Now(), 3*time.Second); err != nil || time.Since(begun) != time.Second {
			t.Errorf("the first request: %v after %v", err, time.Since(begun))
		}
		// A new key is known a minute after the issuer was last asked, whoever asks
		// how often, and one that is not there costs no more.
		r.id.Store("k2")
		begun = time.Now()
		for time.Since(begun) < 59*time.Second {
			if _, err := d.Verify(r.token(t, "k2"), time.Now(), 0); !errors.Is(err, ErrUnknownKey) {
				t.Fatalf("after %v: %v", time.Since(begun), err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(3 * time.Second)
		if _, err := d.Verify(r.token(t, "k2"), time.Now(), 0); err != nil {
			t.Errorf("the new key: %v", err)
		}
		if _, err := d.Verify(r.token(t, "k1"), time.Now(), 0); !errors.Is(err, ErrUnknownKey) {
			t.Errorf("the old key: %v", err)
		}
		if n := r.asked.Load(); n != 2 {
			t.Errorf("asked %d times", n)
		}
		// While the issuer is down what is known stays.
		r.down.Store(true)
		time.Sleep(10 * time.Minute)
		if _, err := d.Verify(r.token(t, "k2"), time.Now(), 0); err != nil || r.asked.Load() < 4 {
			t.Errorf("the issuer is down: %v, asked %d times", err, r.asked.Load())
		}
	})
}

func TestDiscoveryFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		r.slow = time.Hour
		d := discovering(t, r.discover)
		begun := time.Now()
		if _, err := d.Verify(r.token(t, "k1"), time.Now(), 3*time.Second); !errors.Is(err, errUndiscovered) || time.Since(begun) != 3*time.Second {
			t.Errorf("while it does not answer: %v after %v", err, time.Since(begun))
		}
		time.Sleep(10 * time.Second)
		begun = time.Now()
		if _, err := d.Verify(r.token(t, "k1"), time.Now(), 3*time.Second); !errors.Is(err, errUndiscovered) || time.Since(begun) != 0 {
			t.Errorf("when it has not answered: %v after %v", err, time.Since(begun))
		}
	})
}

func TestNoDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := discovering(t, nil)
		if _, err := d.Verify("a.b.c", time.Now(), time.Second); !errors.Is(err, errUndiscovered) {
			t.Error(err)
		}
	})
}

func TestBearer(t *testing.T) {
	for value, want := range map[string]string{
		"Bearer abc": "abc", "Bearer   a b": "a b", "Bearer ": "", "Bearer": "", "Bearer.a": ".a",
		"bearer abc": "-", "Bearerabc": "-", "Basic abc": "-", "": "-",
	} {
		c := &plugin.Ctx{Request: new(wire.Request)}
		if value != "" {
			c.Request.Header.Add("authorization", value)
		}
		got, ok := Bearer(c)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}
