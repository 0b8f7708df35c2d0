package plugin

import (
	"slices"
	"sync"
)

// A Keeper holds state that outlives a configuration: counters, pools,
// breakers. What nobody uses any more is dropped.
type Keeper struct {
	mu      sync.Mutex
	kept    map[string]*kept
	lasting map[string]any
	names   []string // of lasting, in the order in which they were made
}

type kept struct {
	value any
	users int
}

// Uses are the values one configuration has asked a Keeper for.
type Uses struct {
	keeper *Keeper
	keys   []string
}

// Uses starts the list of one configuration.
func (k *Keeper) Uses() *Uses { return &Uses{keeper: k} }

// Fork starts the list of one more configuration at the same Keeper.
func (u *Uses) Fork() *Uses { return &Uses{keeper: u.keeper} }

// Len is the number of values kept.
func (k *Keeper) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.kept)
}

// Keep returns the value under key, making it for the first user. The value
// lives until every configuration that asked for it is closed; a new
// configuration is compiled before the old one is closed, so that the value
// survives the change. If the value has a Close method, it is called at the end.
func Keep[T any](env Env, key string, make func() T) T {
	u := env.Keep
	k := u.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.kept[key]
	if _, ok := valueOf[T](e); !ok {
		if k.kept == nil {
			k.kept = map[string]*kept{}
		}
		e = &kept{value: make()}
		k.kept[key] = e
	}
	e.users++
	u.keys = append(u.keys, key)
	v, _ := valueOf[T](e)
	return v
}

// Lasting is Keep for a value that lives until the Keeper is closed, whoever
// uses it meanwhile: counters that a route finds again when it was deleted and
// has come back. It is for values that bound their own memory; name is one of
// few, known when the gateway was built.
func Lasting[T any](env Env, name string, make func() T) T {
	k := env.Keep.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if v, ok := k.lasting[name].(T); ok {
		return v
	}
	if k.lasting == nil {
		k.lasting = map[string]any{}
	}
	v := make()
	k.lasting[name] = v
	k.names = append(k.names, name)
	return v
}

// Close ends the Lasting values, later ones first. Nothing may be compiled any
// more.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range slices.Backward(k.names) {
		if c, ok := k.lasting[name].(interface{ Close() }); ok {
			c.Close()
		}
	}
	k.lasting, k.names = nil, nil
}

func valueOf[T any](e *kept) (v T, ok bool) {
	if e != nil {
		v, ok = e.value.(T)
	}
	return v, ok
}

// Release ends the uses. It is called once, when the configuration is closed.
func (u *Uses) Release() {
	for _, c := range u.drop() {
		c.Close() // without the lock: it may take its time
	}
}

// drop returns the values that nobody uses any more, if they can be closed.
func (u *Uses) drop() (unused []interface{ Close() }) {
	k := u.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range slices.Backward(u.keys) { // what was asked for later may need the earlier
		e := k.kept[key]
		if e.users--; e.users > 0 {
			continue
		}
		delete(k.kept, key)
		if c, ok := e.value.(interface{ Close() }); ok {
			unused = append(unused, c)
		}
	}
	u.keys = nil
	return unused
}
