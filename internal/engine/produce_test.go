package engine

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"weir/internal/plugin"
)

// streamConf makes the test plugin answer with a body that is made in pieces.
type streamConf struct {
	Pieces int  `json:"pieces" schema:"required" doc:"How many pieces."`
	Fail   bool `json:"fail" schema:"default=false" doc:"Fail after them."`
}

const streamPiece = 100 << 10

var streamPlugin = plugin.Define(
	plugin.Meta{Name: "stream", Priority: 1, Doc: "Test plugin."},
	func(c *streamConf, _ plugin.Env) (plugin.Phases, error) {
		reply := &plugin.Reply{Status: 200, Header: [][2]string{{"Content-Type", "text/x"}}, Stream: func(w io.Writer) error {
			for i := range c.Pieces {
				if _, err := io.WriteString(w, strings.Repeat(fmt.Sprint(i%10), streamPiece)); err != nil {
					return err
				}
			}
			if c.Fail {
				return errors.New("no more")
			}
			return nil
		}}
		return plugin.Phases{Access: func(*plugin.Ctx) *plugin.Reply { return reply }}, nil
	},
)

// A body that a plugin makes in pieces arrives whole in every framing, through
// filters, and without one where there is none.
func TestStreamedReply(t *testing.T) {
	g := startWith(t, nil, streamPlugin)
	g.put("routes/1", route("/s", "127.0.0.1:1", `,"plugins":{"stream":{"pieces":3}}`),
		"routes/2", route("/e", "127.0.0.1:1", `,"plugins":{"stream":{"pieces":1},"edit":{"encode":true}}`),
		"routes/3", route("/n", "127.0.0.1:1", `,"plugins":{"stream":{"pieces":0}}`))
	all := strings.Repeat("0", streamPiece) + strings.Repeat("1", streamPiece) + strings.Repeat("2", streamPiece)
	c := g.dial()
	for _, o := range []struct{ method, path, proto, want string }{
		{"GET", "/s", "1.1", all},
		{"GET", "/e", "1.1", "[" + all[:streamPiece] + "]"},
		{"HEAD", "/s", "1.1", ""},
		{"GET", "/n", "1.1", ""},
		{"GET", "/s", "1.0", all},
	} {
		c.send("%s %s HTTP/%s\r\nHost: h\r\n\r\n", o.method, o.path, o.proto)
		r, body := c.answer(o.method)
		if r.StatusCode != 200 || body != o.want || r.Header.Get("Content-Type") != "text/x" {
			t.Errorf("%+v: %d %v, %d bytes", o, r.StatusCode, r.Header, len(body))
		}
	}
}

// A plugin that cannot go on does not let the client take what came for the whole.
func TestStreamedReplyCut(t *testing.T) {
	g := startWith(t, nil, streamPlugin)
	g.put("routes/1", route("/s", "127.0.0.1:1", `,"plugins":{"stream":{"pieces":1,"fail":true}}`))
	r, err := http.Get("http://" + g.addr + "/s")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
