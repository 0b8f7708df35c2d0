package portal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/dialect/apicast"
	"weir/internal/model"
	"weir/internal/plugin"
)

// unknownKeyEvery is how often an issuer is asked at most because a token names a
// key that is not known.
const unknownKeyEvery = time.Minute

const (
	discoveryTime  = 10 * time.Second // for an issuer's answers, and for those of all
	discoveryPause = 10 * time.Second // after one that was of no use

	issuersAtOnce = 32      // that are asked
	issuerRoom    = 1 << 20 // bytes of an issuer's answers, which have some kilobytes
	discoveryRoom = 2 * issuersAtOnce * issuerRoom
)

// issuers are the OIDC parts that were discovered, by endpoint. An endpoint that
// does not answer keeps what it said last.
type issuers struct {
	*fetcher
	room room // of answers
	now  func() time.Time

	mu    sync.Mutex
	known map[string]*issuer
}

// An issuer is one of them. Its members are guarded by busy.
type issuer struct {
	busy  sync.Mutex
	asked time.Time       // when it was asked last; zero: never
	good  bool            // the last answer was usable
	oidc  json.RawMessage // nil: there never was a usable answer
	name  string          // as its document says

	latest atomic.Pointer[json.RawMessage] // oidc, for whoever does not wait; nil: none
}

// newest gives services the OIDC parts that are known now: while they were loaded
// an issuer may have had other keys.
func (s *issuers) newest(services []service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range services {
		if issuer := s.known[services[i].Issuer]; issuer != nil && services[i].Issuer != "" {
			if oidc := issuer.latest.Load(); oidc != nil {
				services[i].oidc = *oidc
			}
		}
	}
}

func (s *issuers) at(endpoint string) *issuer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[endpoint] == nil {
		s.known[endpoint] = &issuer{}
	}
	return s.known[endpoint]
}

// part is the OIDC part for an endpoint that is not older than age; nil: there is
// none. The error is why it could not be renewed.
func (s *issuers) part(ctx context.Context, endpoint string, age time.Duration) (json.RawMessage, error) {
	i := s.at(endpoint)
	i.busy.Lock()
	defer i.busy.Unlock()
	if i.fresh(s.now(), age) {
		return i.oidc, nil
	}
	ctx, cancel := context.WithTimeout(ctx, discoveryTime)
	defer cancel()
	i.asked = s.now()
	name, oidc, err := s.discover(ctx, endpoint)
	i.good = err == nil
	if err != nil {
		return i.oidc, fmt.Errorf("OIDC issuer: %w", err)
	}
	i.name, i.oidc = name, oidc
	i.latest.Store(&oidc)
	return oidc, nil
}

// fresh says that an issuer need not be asked: it was not longer than age ago, or
// just now in vain.
func (i *issuer) fresh(now time.Time, age time.Duration) bool {
	since := now.Sub(i.asked)
	if !i.good {
		return since < discoveryPause
	}
	return age < 0 || since < age
}

// named are the endpoints of an issuer, which may be one of them itself, that
// were not asked for a minute.
func (s *issuers) named(name string) (endpoints []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for endpoint, i := range s.known {
		if !i.busy.TryLock() {
			continue // it is being asked
		}
		if (endpoint == name || i.name == name) && s.now().Sub(i.asked) >= unknownKeyEvery {
			endpoints = append(endpoints, endpoint)
		}
		i.busy.Unlock()
	}
	return endpoints
}

// failed are the endpoints whose last answer was of no use.
func (s *issuers) failed() (endpoints []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for endpoint, i := range s.known {
		if !i.busy.TryLock() {
			continue
		}
		if !i.good && !i.asked.IsZero() {
			endpoints = append(endpoints, endpoint)
		}
		i.busy.Unlock()
	}
	return endpoints
}

// usefulFirst sorts endpoints: those whose last answer was of no use come last, so
// that no others wait for them.
func (s *issuers) usefulFirst(endpoints []string) {
	useless := map[string]int{}
	for _, endpoint := range s.failed() {
		useless[endpoint] = 1
	}
	slices.SortStableFunc(endpoints, func(a, b string) int { return cmp.Compare(useless[a], useless[b]) })
}

// only forgets every endpoint that is not among these.
func (s *issuers) only(endpoints map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for endpoint := range s.known {
		if !endpoints[endpoint] {
			delete(s.known, endpoint)
		}
	}
}

// Discover asks an issuer, by its endpoint, for its configuration and its keys.
func (s *Source) Discover(ctx context.Context, endpoint string) (*model.OIDC, error) {
	_, raw, err := s.origin.issuers.discover(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return apicast.DecodeOIDC(raw)
}

// A discovered is an OIDC entry of a document.
type discovered struct {
	Issuer string                     `json:"issuer"`
	Config json.RawMessage            `json:"config"`
	Keys   map[string]json.RawMessage `json:"keys"`
}

// discover asks an issuer for its configuration and its keys (OpenID Connect
// Discovery 1.0 section 4).
func (s *issuers) discover(ctx context.Context, endpoint string) (name string, oidc json.RawMessage, err error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", nil, fmt.Errorf("OIDC url is not valid, uri: %q", plugin.BareURL(endpoint))
	}
	v := s.room.enter()
	defer v.leave()
	config, err := get(ctx, s.fetcher, question{join(endpoint, ".well-known/openid-configuration"), v, isJSON}, readObject)
	if err != nil {
		return "", nil, err
	}
	var d struct {
		Issuer string `json:"issuer"`
		JWKS   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(config, &d); err != nil {
		return "", nil, err
	}
	if d.JWKS == "" {
		return "", nil, errors.New("no jwks_uri")
	}
	keys, err := get(ctx, s.fetcher, question{d.JWKS, v, isJSON}, readKeys)
	if err != nil {
		return "", nil, err
	}
	oidc, err = json.Marshal(discovered{d.Issuer, config, keys})
	return d.Issuer, oidc, err
}

func isJSON(h http.Header) error {
	switch t, _, _ := mime.ParseMediaType(h.Get("Content-Type")); t {
	case "application/json", "application/jwk-set+json":
		return nil
	}
	return fmt.Errorf("not json: Content-Type %q", h.Get("Content-Type"))
}

func readObject(body []byte) (json.RawMessage, error) {
	var o map[string]json.RawMessage
	if err := apicast.Unmarshal(body, &o); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Compact(&out, body); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// readKeys reads a JWK set (RFC 7517 section 5): keys by id. One without an id
// cannot be named by a token.
func readKeys(body []byte) (map[string]json.RawMessage, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := apicast.Unmarshal(body, &set); err != nil {
		return nil, err
	}
	keys := map[string]json.RawMessage{}
	for i, raw := range set.Keys {
		var k struct {
			ID string `json:"kid"`
		}
		if err := json.Unmarshal(raw, &k); err != nil {
			return nil, fmt.Errorf("keys[%d]: %w", i, err)
		}
		if k.ID != "" {
			keys[k.ID] = raw
		}
	}
	return keys, nil
}

// atOnce calls f for 0 to n-1, a few at the same time.
func atOnce(few, n int, f func(int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(few, n) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
