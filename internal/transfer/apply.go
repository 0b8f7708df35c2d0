package transfer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"weir/internal/document"
	"weir/internal/model"
)

// A Target is where changes can be made.
type Target interface {
	Put(ctx context.Context, key model.Key, v *document.Value) error
	Delete(ctx context.Context, key model.Key) error
}

// workers is how many objects of one kind are written at once.
const workers = 10

// A Failure is a change that was refused.
type Failure struct {
	Change
	Err error
}

// A Result is what Apply did.
type Result struct {
	Done   []Change
	Failed []Failure
	Left   []Change // not tried, because something failed
}

// Apply makes changes, what others refer to first and, in the end, deletions in
// the reverse order. A refused object does not keep others from being written,
// but then nothing more is deleted. An error means that the target does not
// work; what was not tried is in Left. Progress is told the number of objects
// done; it may be nil.
func Apply(ctx context.Context, t Target, changes []Change, progress func(done int)) (Result, error) {
	if progress == nil {
		progress = func(int) {}
	}
	a := &application{target: t, progress: progress}
	var puts, deletions []Change
	for _, c := range changes {
		if c.Action == Deleted {
			deletions = append(deletions, c)
		} else {
			puts = append(puts, c)
		}
	}
	err := a.run(ctx, puts, deletions)
	for _, c := range changes {
		if !a.settled[c.Key] {
			a.Left = append(a.Left, c)
		}
	}
	slices.SortFunc(a.Done, func(x, y Change) int { return compareKeys(x.Key, y.Key) })
	slices.SortFunc(a.Failed, func(x, y Failure) int { return compareKeys(x.Key, y.Key) })
	return a.Result, err
}

// An application is an Apply under way.
type application struct {
	Result
	target   Target
	progress func(int)

	mu      sync.Mutex
	settled map[model.Key]bool
}

func (a *application) run(ctx context.Context, puts, deletions []Change) error {
	a.settled = map[model.Key]bool{}
	if err := a.groups(ctx, puts, order()); err != nil {
		return err
	}
	if a.clashes() {
		// A key or a plugin moves from one object to another, and its old place is
		// yet to be cleared.
		clear, rest := split(deletions, func(c Change) bool { return claims(c.Key.Kind) })
		if err := a.groups(ctx, clear, reversed()); err != nil {
			return err
		}
		deletions = rest
		if err := a.retry(ctx); err != nil {
			return err
		}
	}
	if len(a.Failed) > 0 {
		return nil
	}
	return a.groups(ctx, deletions, reversed())
}

// order is that of writing: what is referred to comes before what refers to it.
func order() []model.Kind {
	return []model.Kind{
		model.KindSecret, model.KindPluginMetadata, model.KindProto, model.KindSSL, model.KindUpstream, model.KindService,
		model.KindCostDecoration, model.KindPluginConfig, model.KindConsumerGroup, model.KindConsumer, model.KindCredential,
		model.KindGlobalRule, model.KindRoute, model.KindStreamRoute,
	}
}

func reversed() []model.Kind {
	kinds := order()
	slices.Reverse(kinds)
	return kinds
}

// claims says that an object can keep another of its kind from being stored.
func claims(k model.Kind) bool {
	return k == model.KindConsumer || k == model.KindCredential || k == model.KindGlobalRule
}

func split(all []Change, first func(Change) bool) (yes, no []Change) {
	for _, c := range all {
		if first(c) {
			yes = append(yes, c)
		} else {
			no = append(no, c)
		}
	}
	return yes, no
}

// clashes says that an object was refused because another holds what it wants.
func (a *application) clashes() bool {
	return slices.ContainsFunc(a.Failed, func(f Failure) bool {
		text := f.Err.Error()
		return claims(f.Key.Kind) && (strings.Contains(text, "duplicate ") || strings.Contains(text, "already exists"))
	})
}

// retry writes what was refused again as long as that gets anywhere.
func (a *application) retry(ctx context.Context) error {
	for {
		var again []Change
		for _, f := range a.Failed {
			again = append(again, f.Change)
		}
		before := len(again)
		a.Failed = nil
		if err := a.groups(ctx, again, order()); err != nil {
			return err
		}
		if len(a.Failed) == 0 || len(a.Failed) == before {
			return nil
		}
	}
}

// groups makes the changes kind by kind.
func (a *application) groups(ctx context.Context, changes []Change, kinds []model.Kind) error {
	for _, kind := range kinds {
		group, _ := split(changes, func(c Change) bool { return c.Key.Kind == kind })
		for _, wave := range waves(group) {
			err := each(ctx, len(wave), func(ctx context.Context, i int) error { return a.one(ctx, wave[i]) }, nil)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// waves parts stream routes that refer to each other: a subordinate is written
// after its superior and deleted before it.
func waves(group []Change) [][]Change {
	if len(group) == 0 {
		return nil
	}
	if group[0].Key.Kind != model.KindStreamRoute {
		return [][]Change{group}
	}
	subordinate := func(c Change) bool {
		v := c.to
		if c.Action == Deleted {
			v = c.from
		}
		return dotted(v, "protocol.superior_id") != nil
	}
	subordinates, superiors := split(group, subordinate)
	if group[0].Action == Deleted {
		return [][]Change{subordinates, superiors}
	}
	return [][]Change{superiors, subordinates}
}

func (a *application) one(ctx context.Context, c Change) error {
	var err error
	if c.Action == Deleted {
		err = a.target.Delete(ctx, c.Key)
	} else {
		err = a.target.Put(ctx, c.Key, c.to)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var no *Refusal
	switch {
	case err == nil:
		a.Done = append(a.Done, c)
	case errors.As(err, &no) && no.Status < 500:
		a.Failed = append(a.Failed, Failure{c, err})
	default:
		return err
	}
	a.settled[c.Key] = true
	a.progress(len(a.Done))
	return nil
}

// each calls f for 0 to n−1, workers at a time. The first error ends it and is
// returned. progress is told the number of calls that returned; it may be nil.
func each(ctx context.Context, n int, f func(context.Context, int) error, progress func(done int)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	next, done := 0, 0
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == n || ctx.Err() != nil {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range min(workers, n) {
		wg.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if err := f(ctx, i); err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				if done++; progress != nil {
					progress(done)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
