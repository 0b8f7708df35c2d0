package threescale

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/plugin"
)

// When an issuer is asked for its configuration and keys.
const (
	discoverFor   = 10 * time.Second // how long it may take
	discoverEvery = 5 * time.Minute
	discoverAgain = time.Minute      // at most because of unknown keys
	discoverPause = 10 * time.Second // after a failure
)

// A Discovery keeps what an issuer says of itself. It asks in the background, again
// and again.
type Discovery struct {
	rt      *Runtime
	url     string
	current atomic.Pointer[Issuer] // nil: nothing is known yet
	first   chan struct{}          // closed when it has answered, or not, for the first time
	wake    chan struct{}
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

// DiscoverIssuer is the discovery of an issuer by its URL, shared with all
// configurations that name the same; it lives as long as they do.
func DiscoverIssuer(env plugin.Env, url string) *Discovery {
	rt := ProductOf(env).Runtime
	return plugin.Keep(env, "OIDC discovery "+url, func() *Discovery {
		d := &Discovery{rt: rt, url: url, first: make(chan struct{}), wake: make(chan struct{}, 1)}
		ctx, stop := context.WithCancel(env.Context)
		d.stop = stop
		d.wg.Go(func() { d.run(ctx) })
		return d
	})
}

// Close ends the asking.
func (d *Discovery) Close() {
	d.stop()
	d.wg.Wait()
}

var errUndiscovered = errors.New("nothing is known of the OIDC issuer yet")

// Verify is Issuer.Verify. It waits for the first answer of the issuer, for as long
// as patience says. A token that names an unknown key makes the issuer be asked for
// its keys, at most once a minute.
func (d *Discovery) Verify(raw string, now time.Time, patience time.Duration) (*Token, error) {
	i := d.current.Load()
	if i == nil {
		if i = d.await(patience); i == nil {
			return nil, errUndiscovered
		}
	}
	t, err := i.Verify(raw, now)
	if errors.Is(err, ErrUnknownKey) {
		select {
		case d.wake <- struct{}{}:
		default: // it is awake already
		}
	}
	return t, err
}

func (d *Discovery) await(patience time.Duration) *Issuer {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-d.first:
	case <-t.C:
	}
	return d.current.Load()
}

func (d *Discovery) run(ctx context.Context) {
	var failed error
	for n := 0; ; n++ {
		err := d.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && (failed == nil || failed.Error() != err.Error()) {
			d.rt.Log.Warn("OIDC issuer: discovery failed", "issuer", plugin.BareURL(d.url), "err", err)
		}
		failed = err
		if n == 0 {
			close(d.first)
		}
		if !d.sleep(ctx, err != nil) {
			return
		}
	}
}

func (d *Discovery) ask(ctx context.Context) error {
	if d.rt.Discover == nil {
		return errors.New("this gateway has no OIDC discovery")
	}
	ctx, cancel := context.WithTimeout(ctx, discoverFor)
	defer cancel()
	o, err := d.rt.Discover(ctx, d.url)
	if err != nil {
		return err
	}
	i, err := NewIssuer(d.rt, o)
	if i.missing {
		return err
	}
	if err != nil {
		d.rt.Log.Warn("OIDC issuer", "issuer", plugin.BareURL(d.url), "err", err)
	}
	d.current.Store(i)
	return nil
}

// sleep waits until the issuer is to be asked again; false: never more.
func (d *Discovery) sleep(ctx context.Context, failed bool) bool {
	begun := time.Now()
	due := time.NewTimer(discoverEvery)
	if failed {
		due.Reset(discoverPause)
	}
	defer due.Stop()
	wake := d.wake
	for {
		select {
		case <-ctx.Done():
			return false
		case <-due.C:
			return true
		case <-wake:
			wake = nil
			if !failed {
				due.Reset(max(discoverAgain-time.Since(begun), 0))
			}
		}
	}
}
