package upstream

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/internal/model"
	"weir/internal/wire"
)

// An upstream may be told how large the heads of its responses may be; others at
// the same node are not.
func TestMaxHead(t *testing.T) {
	node := serve(t, func(p *peer) {
		for {
			if _, _, err := p.request(); err != nil {
				return
			}
			fmt.Fprintf(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: %s\r\n\r\nok", strings.Repeat("x", 4096))
		}
	})
	e := env(pools(t))
	for _, c := range []struct {
		max  int
		want error
	}{{0, nil}, {4096, wire.ErrHeadTooLarge}, {8192, nil}, {0, nil}, {4096, wire.ErrHeadTooLarge}} {
		u := compile(t, &model.Upstream{Nodes: nodes(node), MaxHead: c.max}, e)
		x := call(t, "GET")
		err := u.RoundTrip(x)
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%d: %v, want %v", c.max, err, c.want)
		}
		if err == nil {
			if body, err := readAll(x); body != "ok" || err != nil {
				t.Error(body, err)
			}
		}
		x.Finish()
	}
}
