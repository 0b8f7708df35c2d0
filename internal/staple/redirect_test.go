package staple

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

func TestNoRedirect(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer first.Close()
	s := &Stapler{client: newClient()}
	if _, err := s.ask(t.Context(), first.URL, []byte("q")); err == nil || elsewhere.Load() != 0 {
		t.Errorf("%v, %d requests elsewhere", err, elsewhere.Load())
	}
}
