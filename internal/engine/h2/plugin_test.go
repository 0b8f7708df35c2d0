package h2

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A pause ends with the client, or with the gateway: stop waits for everything.
func TestPause(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		g := start(t)
		g.route("/wait", "127.0.0.1:1", `,"plugins":{"fault-injection":{"delay":{"duration":3600}}}`)
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", "http://a.test/wait", nil)
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, 1)
		go func() {
			_, err := g.client(2, nil).Do(req)
			answered <- err
		}()
		for g.engine.Connections() == 0 {
			time.Sleep(time.Millisecond)
		}
		if leaves {
			cancel()
		}
		g.stop()
		cancel()
		if err := <-answered; err == nil {
			t.Error("answered")
		}
	}
}

func TestMaxBody(t *testing.T) {
	g := start(t)
	g.route("/limited", echo(t), `,"plugins":{"client-control":{"max_body_size":10}}`)
	client := g.client(2, nil)
	for length, want := range map[int]int{10: 200, 11: 413, 100_000: 413} {
		body := strings.NewReader(strings.Repeat("x", length))
		for _, r := range []io.Reader{body, io.MultiReader(strings.NewReader(strings.Repeat("x", length)))} { // with and without a length
			res, err := client.Post("http://a.test/limited", "text/plain", r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%d bytes in %T: %d, want %d", length, r, res.StatusCode, want)
			}
		}
	}
}
