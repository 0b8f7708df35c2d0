package app

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"time"

	"weir/internal/model"
	"weir/internal/source/saved"
)

// answerWithin is how long a store may take to answer at the start before the
// saved copy is looked at.
const answerWithin = 2 * time.Second

// openCopy opens the saved copy of an external store's configuration and, if the
// store does not answer, starts from it. A copy that is too old is not used: a
// key that was revoked since lives in it.
func (g *Gateway) openCopy(ctx context.Context) {
	if g.store == nil || g.Config.Embedded || g.Config.Weir.StaleMaxAge <= 0 {
		return
	}
	g.copy = saved.New(filepath.Join(g.Config.Weir.Store.Dir, "last-good"))
	probe, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if _, err := g.store.Revision(probe); err == nil {
		return
	}
	d, at, err := g.copy.Load()
	switch age := time.Since(at); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		g.log.Error("the saved copy of the configuration cannot be used", "err", err)
	case age > g.Config.Weir.StaleMaxAge:
		g.log.Error("the store does not answer and the saved copy of its configuration is too old", "age", age, "limit", g.Config.Weir.StaleMaxAge)
	default:
		g.store.Assume(d.Put)
		g.state.Apply(d)
		g.staleSince.Store(&at)
		g.log.Warn("the store does not answer: starting from the saved copy of its configuration", "saved", at)
		g.say("stale", "configuration of %s, until the store answers", at.Format(time.RFC3339))
		close(g.loaded)
	}
}

// keepCopy tells the saved copy of a step of the store's configuration, which is in
// force.
func (g *Gateway) keepCopy(d model.Delta, first bool) {
	switch {
	case g.copy == nil:
	case first:
		g.staleSince.Store(nil)
		g.copy.Follow(func() (int64, iter.Seq[model.Object]) {
			now := g.state.Current()
			return now.Revision, now.Whole()
		}, func(err error) {
			g.log.Error("the configuration cannot be saved for a start without the store", "err", err)
		})
	default:
		g.copy.Add(d)
	}
}
