// Package payloadlimits refuses requests and answers that announce too long a body.
package payloadlimits

import (
	"strconv"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is payload_limits.
var Policy = plugin.Define(
	plugin.Meta{Name: "payload_limits", Guard: true, Doc: "Refuses requests and answers whose Content-Length is above a limit."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration.
type Config struct {
	Request  threescale.Whole `json:"request" doc:"Bytes that a request's body may have; 0: any number. A body without a length passes."`
	Response threescale.Whole `json:"response" doc:"Bytes that an answer's body may have; 0: any number. A body without a length passes."`
}

const message = "Payload Too Large"

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	var p plugin.Phases
	if limit := int64(c.Request); limit > 0 {
		refusal := plugin.Text(413, message+"\n")
		p.Access = func(r *plugin.Ctx) *plugin.Reply {
			if r.Request.Length > limit {
				return refusal
			}
			return nil
		}
	}
	if limit := int64(c.Response); limit > 0 {
		p.Header, p.Body = limitResponse(limit)
	}
	return p, nil
}

// limitResponse replaces an upstream's answer that is too long, as it was
// announced to the gateway.
func limitResponse(limit int64) (func(*plugin.Ctx), func(*plugin.Ctx) plugin.BodyFilter) {
	own := new(int) // marks the requests whose answer is replaced
	header := func(c *plugin.Ctx) {
		if c.Sent.Source != plugin.FromUpstream || announced(c) <= limit {
			return
		}
		c.SetState(own, true)
		c.Response.Status, c.Response.Reason = 413, ""
		c.Response.Header.Del("Content-Encoding")
	}
	body := func(c *plugin.Ctx) plugin.BodyFilter {
		if c.State(own) == nil {
			return nil
		}
		return instead{}
	}
	return header, body
}

// announced is the length of an answer's body, which it also tells where it has
// none (HEAD); negative: it does not.
func announced(c *plugin.Ctx) int64 {
	if text, ok := c.Response.Header.Get("Content-Length"); ok {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	}
	return c.Response.Length
}

// instead is the refusal in place of a body.
type instead struct{}

func (instead) Ended() bool      { return true }
func (instead) Size(int64) int64 { return int64(len(message)) }
func (instead) Write(_ []byte, last bool) (out []byte) {
	if last {
		out = []byte(message)
	}
	return out
}
