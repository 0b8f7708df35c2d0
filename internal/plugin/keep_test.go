package plugin_test

import (
	"slices"
	"testing"

	"weir/internal/plugin"
)

// A thing counts how often it was closed.
type thing struct{ closed int }

func (t *thing) Close() { t.closed++ }

func TestLasting(t *testing.T) {
	var keeper plugin.Keeper
	one := plugin.Env{Keep: keeper.Uses()}
	made := 0
	make := func() *thing { made++; return new(thing) }
	first := plugin.Lasting(one, "counters", make)
	one.Keep.Release()
	if n := keeper.Len(); n != 0 {
		t.Errorf("%d values kept", n)
	}
	two := plugin.Env{Keep: keeper.Uses()}
	if second := plugin.Lasting(two, "counters", make); second != first || made != 1 {
		t.Errorf("made %d times", made)
	}
	if other := plugin.Lasting(two, "others", make); other == first {
		t.Error("one value under two names")
	}
	two.Keep.Release()
	keeper.Close()
	keeper.Close()
	if first.closed != 1 {
		t.Errorf("closed %d times", first.closed)
	}
}

// TestCloseOrder: what was made last is closed first.
func TestCloseOrder(t *testing.T) {
	var keeper plugin.Keeper
	env := plugin.Env{Keep: keeper.Uses()}
	var closed []string
	for _, name := range []string{"a", "b", "c", "a"} {
		plugin.Lasting(env, name, func() closer { return func() { closed = append(closed, name) } })
	}
	keeper.Close()
	if !slices.Equal(closed, []string{"c", "b", "a"}) {
		t.Errorf("closed %v", closed)
	}
}

// TestReleaseOrder: what was asked for last is closed first.
func TestReleaseOrder(t *testing.T) {
	var keeper plugin.Keeper
	env := plugin.Env{Keep: keeper.Uses()}
	var closed []string
	for _, name := range []string{"a", "b", "c"} {
		plugin.Keep(env, name, func() closer { return func() { closed = append(closed, name) } })
	}
	env.Keep.Release()
	if !slices.Equal(closed, []string{"c", "b", "a"}) {
		t.Errorf("closed %v", closed)
	}
}

type closer func()

func (c closer) Close() { c() }
