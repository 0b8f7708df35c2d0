package engine

import (
	"net"
	"testing"

	"weir/internal/router"
)

// Serving may begin while, or after, the engine is shut down: it then ends at once.
func TestServeMeetsShutdown(t *testing.T) {
	for range 50 {
		g := startPlugins(t, router.HostURI, nil, nil)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- g.Serve(l) }()
		if err := g.Shutdown(t.Context(), l, g.listener); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
