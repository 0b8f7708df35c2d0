package portal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/document"
	"weir/internal/plugin"
)

const (
	answerTime  = time.Minute
	maxRemember = 100_000 // URLs
)

// A room is what may be read of answers at the same time, for one purpose.
type room struct {
	limit   int64 // bytes
	each    int64 // of them, of one visit; 0: all
	setting string
	taken   atomic.Int64 // by visits that are not over
}

// A visit is one use of a room: a load, whose answers are kept until it is over.
type visit struct {
	*room
	taken atomic.Int64
}

func (r *room) enter() *visit { return &visit{room: r} }

// leave gives back what the visit took.
func (v *visit) leave() { v.room.taken.Add(-v.taken.Load()) }

// take takes so many bytes, if there is room for them.
func (v *visit) take(bytes int64) error {
	own, all := v.taken.Add(bytes), v.room.taken.Add(bytes)
	if most := v.most(); own > most || all > v.limit {
		return fmt.Errorf("more than %d bytes are answered (%s)", most, v.setting)
	}
	return nil
}

// most is how many bytes a visit may take.
func (r *room) most() int64 { return cmp.Or(r.each, r.limit) }

// A fetcher asks HTTP servers, and remembers what they said to ask again only for
// what has changed.
type fetcher struct {
	client *http.Client
	agent  string

	mu   sync.Mutex
	urls map[string]*page // immutable pages
	seen Traffic
}

// Traffic counts requests to the portal and to token issuers.
type Traffic struct {
	Requests    int64 `json:"requests"`
	NotModified int64 `json:"not_modified"` // of them: the server knew that nothing had changed
	Bytes       int64 `json:"bytes"`        // of answers, decompressed
}

// A page is what a URL answered with.
type page struct {
	etag, modified string
	digest         [sha256.Size]byte // unless it was read as it arrived
	content        any               // what was read out of it
}

func newFetcher(transport http.RoundTripper, agent string) *fetcher {
	return &fetcher{
		agent: agent, urls: map[string]*page{},
		client: &http.Client{
			Transport: transport, Timeout: answerTime,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// statusError is an answer that is not 200, in APIcast's words.
type statusError int

func (s statusError) Error() string {
	switch s {
	case http.StatusForbidden:
		return "invalid status: 403 (Forbidden)"
	case http.StatusNotFound:
		return "invalid status: 404 (Not Found)"
	}
	return fmt.Sprintf("invalid status: %d", int(s))
}

// A question is what a URL is asked.
type question struct {
	address string
	visit   *visit
	check   func(http.Header) error // may refuse an answer; nil: does not
}

// get returns what read makes of an answer: the same as last time, if that is the
// same. read has the answer from then on.
func get[T any](ctx context.Context, f *fetcher, q question, read func([]byte) (T, error)) (content T, err error) {
	return ask[T](ctx, f, q, func(body *answer, old *page) (p *page, err error) {
		text, err := body.all()
		if err != nil {
			return nil, err
		}
		p = &page{digest: sha256.Sum256(text)}
		if old != nil && p.digest == old.digest {
			p.content = old.content
			return p, nil
		}
		p.content, err = read(text)
		return p, err
	})
}

// reget is get for what is read as it arrives; read is told what it made of the
// answer before, the zero T if there was none.
func reget[T any](ctx context.Context, f *fetcher, q question, read func(body io.Reader, before T) (T, error)) (content T, err error) {
	return ask[T](ctx, f, q, func(body *answer, old *page) (p *page, err error) {
		var before T
		if old != nil {
			before = old.content.(T)
		}
		p = new(page)
		p.content, err = read(body, before)
		return p, err
	})
}

// ask asks a URL and remembers what read makes of the answer; old is what it was
// before, nil if there was none.
func ask[T any](ctx context.Context, f *fetcher, q question, read func(body *answer, old *page) (*page, error)) (content T, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", plugin.BareURL(q.address), plain(err))
		}
	}()
	f.mu.Lock()
	old := f.urls[q.address]
	f.mu.Unlock()
	if old != nil {
		if _, alike := old.content.(T); !alike {
			old = nil // it was read as something else: an issuer chooses the URL of its keys
		}
	}
	res, err := f.do(ctx, q.address, old)
	if err != nil {
		return content, err
	}
	defer res.Body.Close()
	body := &answer{Body: res.Body, visit: q.visit, size: res.ContentLength}
	defer func() { f.count(body.read, res.StatusCode == http.StatusNotModified) }()
	switch {
	case old != nil && res.StatusCode == http.StatusNotModified:
		return old.content.(T), nil
	case res.StatusCode != http.StatusOK:
		_, _ = io.CopyN(io.Discard, res.Body, 64<<10) // a connection whose answer was read is used again
		return content, statusError(res.StatusCode)
	case q.check != nil:
		if err := q.check(res.Header); err != nil {
			return content, err
		}
	}
	next, err := read(body, old)
	if err != nil {
		return content, err
	}
	next.etag, next.modified = res.Header.Get("ETag"), res.Header.Get("Last-Modified")
	f.remember(q.address, next)
	return next.content.(T), nil
}

// do asks, for what is not as it was.
func (f *fetcher) do(ctx context.Context, address string, old *page) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", f.agent)
	if old != nil && old.etag != "" {
		r.Header.Set("If-None-Match", old.etag)
	}
	if old != nil && old.modified != "" {
		r.Header.Set("If-Modified-Since", old.modified)
	}
	return f.client.Do(r)
}

// An answer is the body of one. What is read of it takes room.
type answer struct {
	Body  io.Reader
	visit *visit
	size  int64 // as its head says; below 0: it does not
	read  int64
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.Body.Read(p)
	a.read += int64(n)
	if full := a.visit.take(int64(n)); full != nil {
		return 0, full
	}
	return n, err
}

// all is the whole text.
func (a *answer) all() ([]byte, error) {
	if a.size > a.visit.most() {
		return nil, a.visit.take(a.size)
	}
	return document.ReadText(a, a.size)
}

func (f *fetcher) count(bytes int64, same bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen.Requests++
	f.seen.Bytes += bytes
	if same {
		f.seen.NotModified++
	}
}

func (f *fetcher) traffic() Traffic {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// remember keeps an answer; where there are too many, another is forgotten.
func (f *fetcher) remember(address string, p *page) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.urls[address] == nil && len(f.urls) >= maxRemember {
		for some := range maps.Keys(f.urls) {
			delete(f.urls, some)
			break
		}
	}
	f.urls[address] = p
}

// plain is an error of the HTTP client without the URL, which may hold a password.
func plain(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// join puts a path behind a URL.
func join(base, path string) string {
	return strings.TrimRight(base, "/") + "/" + strings.TrimLeft(path, "/")
}
