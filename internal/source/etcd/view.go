package etcd

import (
	"hash/maphash"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"weir/internal/model"
)

// A change is what happened to one object.
type change struct {
	path   string // below the prefix
	object model.Object
	del    bool
}

// change translates an event; it reports false for keys that hold no object.
func (s *Store) change(kind mvccpb.Event_EventType, kv *mvccpb.KeyValue) (change, bool) {
	// One string serves as the path here and, in part, as the object's id.
	path := string(kv.Key[len(s.cfg.Prefix)+1:])
	key, ok := ObjectKey(path)
	if !ok {
		return change{}, false
	}
	ch := change{path: path, object: model.Object{Key: key}}
	if kind == mvccpb.Event_DELETE || string(kv.Value) == initDir {
		ch.del = true
		return ch, true
	}
	ch.object.Created, ch.object.Modified, ch.object.Raw = kv.CreateRevision, kv.ModRevision, kv.Value
	return ch, true
}

// A mark tells versions of an object apart. A revision alone does not: a store
// that is restored from a backup uses its numbers twice.
type mark uint64

// seed makes the marks comparable within the process; it is never changed.
var seed = maphash.MakeSeed()

func newMark(o model.Object) mark {
	const odd, other = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
	return mark(maphash.Bytes(seed, o.Raw) ^ uint64(o.Created)*odd ^ uint64(o.Modified)*other)
}

// A view is what the receiver of the steps has.
type view struct {
	objects known
	rev     int64
	cluster uint64
	anchor  anchor // the object modified last
	stale   string // reason to read the whole store, or ""
	watched bool   // the last session got as far as a watch
}

// An anchor is an object at a revision; the zero anchor is none.
type anchor struct {
	path     string
	modified int64
}

// newView has room for n objects.
func newView(n int) *view { return &view{objects: newKnown(n)} }

func (v *view) set(ch change) mark {
	m := newMark(ch.object)
	v.objects.set(ch.path, m)
	if v.anchor.modified <= ch.object.Modified {
		v.anchor = anchor{ch.path, ch.object.Modified}
	}
	return m
}

func (v *view) del(path string) {
	v.objects.del(path)
	if v.anchor.path == path {
		v.anchor = anchor{}
	}
}

// step takes the changes into the view and returns what of them is news to the
// receiver.
func (v *view) step(changes []change, rev int64) model.Delta {
	d := model.Delta{Revision: rev}
	for _, ch := range changes {
		was, had := v.objects.get(ch.path)
		switch {
		case !ch.del:
			if v.set(ch) != was || !had {
				d.Put = append(d.Put, ch.object)
			}
		case had:
			v.del(ch.path)
			d.Del = append(d.Del, ch.object.Key)
		}
	}
	v.rev = rev
	return d
}

// pending gathers changes while the receiver works on earlier ones; of several
// changes of one object the last remains.
type pending struct {
	mu      sync.Mutex
	changes []change
	index   map[string]int // path → place in changes
	rev     int64
	ready   chan struct{} // holds a token while there is news
}

func newPending(rev int64) *pending {
	return &pending{rev: rev, index: map[string]int{}, ready: make(chan struct{}, 1)}
}

// add appends changes that lead to the revision rev.
func (p *pending) add(changes []change, rev int64) {
	p.mu.Lock()
	for _, ch := range changes {
		if i, ok := p.index[ch.path]; ok {
			p.changes[i] = ch
			continue
		}
		p.index[ch.path] = len(p.changes)
		p.changes = append(p.changes, ch)
	}
	p.rev = rev
	p.mu.Unlock()
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// take removes what was gathered.
func (p *pending) take() ([]change, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := p.changes
	p.changes = nil
	if len(changes) > 0 {
		p.index = map[string]int{}
	}
	return changes, p.rev
}
