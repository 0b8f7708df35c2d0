package tokenintrospection

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

// A hashed token is how it is remembered.
type hashed [sha256.Size]byte

// Answers are what the server said of tokens, those asked for last.
type answers struct {
	mu    sync.Mutex
	most  int
	byKey map[hashed]*list.Element
	order list.List          // of *kept, the one asked for last in front
	asked map[hashed]*flight // of which the answer is on its way
}

// kept is an answer in its place.
type kept struct {
	key hashed
	answer
}

// A flight is an answer on its way.
type flight struct {
	done   chan struct{}
	active bool
	err    error
}

func newAnswers(most int) *answers {
	return &answers{most: most, byKey: map[hashed]*list.Element{}, asked: map[hashed]*flight{}}
}

// get says whether a token is active, asking only if that is not known.
func (s *answers) get(token string, now func() time.Time, ask func() (answer, error)) (bool, error) {
	key := hashed(sha256.Sum256([]byte(token)))
	s.mu.Lock()
	if e := s.byKey[key]; e != nil {
		k := e.Value.(*kept)
		if k.until.After(now()) {
			s.order.MoveToFront(e)
			s.mu.Unlock()
			return k.active, nil
		}
		s.remove(e)
	}
	if f := s.asked[key]; f != nil {
		s.mu.Unlock()
		<-f.done
		return f.active, f.err
	}
	f := &flight{done: make(chan struct{}), err: errLost}
	s.asked[key] = f
	s.mu.Unlock()

	var a answer
	defer func() { // whatever becomes of ask
		s.mu.Lock()
		delete(s.asked, key)
		if f.err == nil && a.until.After(now()) {
			s.add(key, a)
		}
		s.mu.Unlock()
		close(f.done)
	}()
	a, f.err = ask()
	f.active = a.active && f.err == nil
	return f.active, f.err
}

func (s *answers) add(key hashed, a answer) {
	s.byKey[key] = s.order.PushFront(&kept{key, a})
	if s.order.Len() > s.most {
		s.remove(s.order.Back())
	}
}

func (s *answers) remove(e *list.Element) {
	s.order.Remove(e)
	delete(s.byKey, e.Value.(*kept).key)
}
