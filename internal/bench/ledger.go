package bench

import (
	"slices"
	"sync"
)

// A version is what a write made of an object: number n of the object's writes,
// and whether it was deleted.
type version struct {
	n    int
	gone bool
}

// A ledger notes what was written and what of it was acknowledged, and so knows
// what an object may be. Writes of one object follow each other.
type ledger struct {
	mu      sync.Mutex
	objects map[string]*entry
	called  int
	acked   int
}

// An entry is one object.
type entry struct {
	last  version   // the newest that was acknowledged; n is 0 if none was
	tries []version // made since, of which nobody knows whether they were carried out
	next  int
}

func newLedger() *ledger { return &ledger{objects: map[string]*entry{}} }

// begin notes a write that is about to be sent.
func (l *ledger) begin(key string, gone bool) version {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.objects[key]
	if e == nil {
		e = &entry{last: version{gone: true}}
		l.objects[key] = e
	}
	e.next++
	v := version{n: e.next, gone: gone}
	e.tries = append(e.tries, v)
	l.called++
	return v
}

// acknowledge notes that a write was carried out. What was tried before it and not
// acknowledged can no longer be seen.
func (l *ledger) acknowledge(key string, v version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.objects[key]
	e.last = v
	e.tries = slices.DeleteFunc(e.tries, func(t version) bool { return t.n <= v.n })
	l.acked++
}

// refuse notes that a write was certainly not carried out.
func (l *ledger) refuse(key string, v version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.objects[key]
	e.tries = slices.DeleteFunc(e.tries, func(t version) bool { return t == v })
}

// A judgement is what a ledger says of an object that was seen.
type judgement uint8

const (
	holds   judgement = iota // the last acknowledged write, or one tried after it
	lost                     // an acknowledged write is not there
	unknown                  // nothing that was ever written
)

// judge says whether an object may be what was seen: the number that it carries, or
// that it is gone.
func (l *ledger) judge(key string, seen version) judgement {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.objects[key]
	if e == nil {
		if seen.gone {
			return holds
		}
		return unknown
	}
	same := func(v version) bool { return v.gone == seen.gone && (v.gone || v.n == seen.n) }
	if same(e.last) || slices.ContainsFunc(e.tries, same) {
		return holds
	}
	if !seen.gone && seen.n > e.next {
		return unknown
	}
	return lost
}

// adopt makes what is stored what must be, after a store was set back.
func (l *ledger) adopt(stored map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, e := range l.objects {
		n, there := stored[key]
		e.last, e.tries = version{n: n, gone: !there}, nil
	}
}

// keys are the objects that were written, in order.
func (l *ledger) keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]string, 0, len(l.objects))
	for key := range l.objects {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// counts are the writes that were sent and those that were acknowledged.
func (l *ledger) counts() (called, acked int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.called, l.acked
}
