package portal

import (
	"bytes"
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
	"time"
)

const (
	maxAnswer   = 256 << 20 // bytes
	answerTime  = time.Minute
	maxRemember = 100_000 // URLs
)

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
	digest         [sha256.Size]byte
	content        any // what was read out of it
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

// get returns what read makes of the answer of a URL: the same as last time, if
// that is the same. check, if not nil, may refuse a header. read may not keep the
// answer.
func get[T any](ctx context.Context, f *fetcher, address string, check func(http.Header) error, read func([]byte) (T, error)) (content T, err error) {
	return reget(ctx, f, address, check, func(body []byte, _ T) (T, error) { return read(body) })
}

// reget is get with a read that is told what it made of the answer before; the
// zero T: there was none.
func reget[T any](ctx context.Context, f *fetcher, address string, check func(http.Header) error, read func(body []byte, before T) (T, error)) (content T, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", redact(address), plain(err))
		}
	}()
	f.mu.Lock()
	old := f.urls[address]
	f.mu.Unlock()
	if old != nil {
		if _, alike := old.content.(T); !alike {
			old = nil // it was read as something else: an issuer chooses the URL of its keys
		}
	}
	body := bodies.Get().(*bytes.Buffer)
	defer bodies.Put(body)
	body.Reset()
	next, err := f.ask(ctx, address, old, check, body)
	if err != nil {
		return content, err
	}
	switch {
	case next == old:
		return old.content.(T), nil
	case old != nil && next.digest == old.digest:
		next.content = old.content
	default:
		if old != nil {
			content = old.content.(T)
		}
		if content, err = read(body.Bytes(), content); err != nil {
			return content, err
		}
		next.content = content
	}
	f.remember(address, next)
	return next.content.(T), nil
}

// bodies are buffers for answers: a portal's are large, and all alike.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// ask asks; the body is empty where nothing has changed.
func (f *fetcher) ask(ctx context.Context, address string, old *page, check func(http.Header) error, body *bytes.Buffer) (*page, error) {
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
	res, err := f.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if 0 < res.ContentLength && res.ContentLength <= maxAnswer {
		body.Grow(int(res.ContentLength) + bytes.MinRead) // what ReadFrom wants to have left
	}
	_, err = body.ReadFrom(io.LimitReader(res.Body, maxAnswer+1))
	same := old != nil && res.StatusCode == http.StatusNotModified
	f.count(body.Len(), same)
	switch {
	case err != nil:
		return nil, err
	case body.Len() > maxAnswer:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	case same:
		return old, nil
	case res.StatusCode != http.StatusOK:
		return nil, statusError(res.StatusCode)
	}
	if check != nil {
		if err := check(res.Header); err != nil {
			return nil, err
		}
	}
	return &page{etag: res.Header.Get("ETag"), modified: res.Header.Get("Last-Modified"), digest: sha256.Sum256(body.Bytes())}, nil
}

func (f *fetcher) count(bytes int, same bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen.Requests++
	f.seen.Bytes += int64(bytes)
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

// redact is a URL without what may be secret in it: its user and its query.
func redact(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "a URL that cannot be read"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
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
