// Package requestid gives every request a name that travels with it.
package requestid

import (
	"fmt"
	"sync"
	"time"

	"weir/internal/plugin"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: "request-id", Priority: 12015, Doc: "Gives every request an identifier, in a header to the upstream and to the client."},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	HeaderName string  `json:"header_name"         schema:"default=X-Request-Id" doc:"Header that carries the identifier. One that the client sends is kept."`
	InResponse bool    `json:"include_in_response" schema:"default=true" doc:"Send it to the client, too, unless the upstream has set the header."`
	Algorithm  string  `json:"algorithm"           schema:"enum=uuid|nanoid|range_id|ksuid|uuidv7,default=uuid" doc:"What the identifier looks like."`
	RangeID    RangeID `json:"range_id"            schema:"default={\"length\":16,\"char_set\":\"abcdefghijklmnopqrstuvwxyzABCDEFGHIGKLMNOPQRSTUVWXYZ0123456789\"}" doc:"For the algorithm range_id."`
}

// RangeID describes identifiers of random characters.
type RangeID struct {
	Length  int    `json:"length"   schema:"min=6,default=16" doc:"Number of characters."`
	CharSet string `json:"char_set" schema:"minLen=6,default=abcdefghijklmnopqrstuvwxyzABCDEFGHIGKLMNOPQRSTUVWXYZ0123456789" doc:"The characters, single bytes."`
}

// maxLength bounds the identifier: it has to fit into a head.
const maxLength = 4096

// buffers hold identifiers while they are made.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	if c.RangeID.Length > maxLength {
		return plugin.Phases{}, fmt.Errorf(`property "range_id" validation failed: property "length" validation failed: expected %d to be at most %d`, c.RangeID.Length, maxLength)
	}
	generate := generators(c, env.Now)[c.Algorithm]
	// No template can name this variable.
	kept := "request-id\x00" + c.HeaderName
	p := plugin.Phases{Rewrite: func(r *plugin.Ctx) *plugin.Reply {
		id, _ := r.Header(c.HeaderName)
		if id == "" {
			b := buffers.Get().(*[]byte)
			*b = generate((*b)[:0])
			id = r.Keep(*b)
			buffers.Put(b)
			r.SetHeader(c.HeaderName, id)
		}
		r.SetVar(kept, id)
		r.SetRequestID(id)
		return nil
	}}
	if c.InResponse {
		p.Header = func(r *plugin.Ctx) {
			id, ok := r.Var(kept)
			if have, _ := r.Response.Header.Get(c.HeaderName); have == "" && ok {
				r.Response.Header.Set(c.HeaderName, id)
			}
		}
	}
	return p, nil
}

func generators(c *Config, now func() time.Time) map[string]func([]byte) []byte {
	return map[string]func([]byte) []byte{
		"uuid":   uuid4,
		"uuidv7": func(dst []byte) []byte { return uuid7(dst, now()) },
		"ksuid":  func(dst []byte) []byte { return ksuid(dst, now()) },
		"nanoid": func(dst []byte) []byte {
			return pick(dst, 21, "-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
		},
		"range_id": func(dst []byte) []byte { return pick(dst, c.RangeID.Length, c.RangeID.CharSet) },
	}
}
