package transfer

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// A server that points elsewhere does not get the key there.
func TestNoRedirect(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer first.Close()
	a, err := NewAdmin(AdminConfig{URL: first.URL, Key: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	status, _, err := a.send(context.Background(), "GET", "/routes", nil)
	if err != nil || status != http.StatusTemporaryRedirect || elsewhere.Load() != 0 {
		t.Errorf("%d, %v, %d requests elsewhere", status, err, elsewhere.Load())
	}
}
