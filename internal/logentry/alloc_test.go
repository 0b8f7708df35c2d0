//go:build !race

package logentry

import (
	"testing"

	"weir/internal/wire"
)

// TestAllocations: making an entry allocates the entry and nothing else.
func TestAllocations(t *testing.T) {
	for name, conf := range map[string]string{
		"full":   `{"include_req_body":true,"include_resp_body":true}`,
		"custom": `{"log_format":{"host":"$host","method":"$request_method","status":"$status","time":"$request_time","a":{"b":"$uri"}}}`,
	} {
		e := compiled(t, conf, `{}`)
		c := request([2]string{"Accept", "*/*"}, [2]string{"User-Agent", "x"})
		c.Request.Host = "example.com"
		c.Response.Length = wire.Chunked
		p := e.Phases()
		body := []byte("hello")
		response, route := c.Response, c.Route
		n := testing.AllocsPerRun(200, func() {
			c.Reset()
			c.Response, c.Route, c.Sent.End = response, route, c.Start
			if p.Access != nil {
				p.Access(c)
			}
			for _, tap := range c.Taps() {
				tap.See(body)
			}
			if p.Body != nil {
				p.Body(c).Write(body, true)
			}
			e.Make(c)
		})
		if n > 1 {
			t.Errorf("%s: %v allocations, want 1", name, n)
		}
	}
}
