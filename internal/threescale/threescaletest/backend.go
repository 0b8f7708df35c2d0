package threescaletest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/threescale"
	"weir/internal/upstream"
)

// A Backend plays that of 3scale.
type Backend struct {
	URL string

	mu     sync.Mutex
	answer func(Call) (status int, header map[string]string)
	calls  []Call
}

// A Call is what the backend was asked.
type Call struct {
	Method, Path, Host string
	Query, Form        url.Values
	Header             http.Header
}

// NewBackend starts a backend that says 200.
func NewBackend(t testing.TB) *Backend {
	t.Helper()
	b := new(Backend)
	b.Says(200, nil)
	s := httptest.NewServer(http.HandlerFunc(b.serve))
	b.URL = s.URL
	t.Cleanup(s.Close)
	return b
}

func (b *Backend) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	c := Call{r.Method, r.URL.Path, r.Host, r.URL.Query(), form, r.Header}
	b.mu.Lock()
	answer := b.answer
	b.calls = append(b.calls, c)
	b.mu.Unlock()
	status, header := answer(c)
	if status == 0 {
		panic(http.ErrAbortHandler) // which closes the connection
	}
	for k, v := range header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(status)
}

// Says has the backend answer so; 0: it closes the connection.
func (b *Backend) Says(status int, header map[string]string) {
	b.Answers(func(Call) (int, map[string]string) { return status, header })
}

// Answers has f answer.
func (b *Backend) Answers(f func(Call) (status int, header map[string]string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = f
}

// Calls are those that have come since the last call of Calls.
func (b *Backend) Calls() []Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.calls
	b.calls = nil
	return all
}

// Wait is Calls when n have come, or none for a long time.
func (b *Backend) Wait(t testing.TB, n int) []Call {
	t.Helper()
	for range 2000 {
		b.mu.Lock()
		came := len(b.calls)
		b.mu.Unlock()
		if came >= n {
			return b.Calls()
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%d calls, want %d", len(b.Calls()), n)
	return nil
}

// Reaching is Env where upstreams, the backend among them, are real.
func Reaching(t testing.TB, p *threescale.Product) plugin.Env {
	t.Helper()
	env := Env(p)
	pools := upstream.NewPools()
	t.Cleanup(pools.Close)
	env.Reach = func(m *model.Upstream) (plugin.Upstream, error) {
		u, err := upstream.Compile(m, upstream.Env{Pools: pools})
		if err != nil {
			return nil, err
		}
		return u, nil
	}
	t.Cleanup(env.Keep.Release)
	return env
}
