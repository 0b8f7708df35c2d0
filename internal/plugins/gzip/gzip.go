// Package gzip compresses responses (RFC 1952).
package gzip

import (
	"compress/gzip"
	"strconv"

	"weir/internal/plugin"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: "gzip", Priority: 995, Doc: "Compresses responses with gzip for clients that take it."},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	plugin.Compression
	CompLevel int     `json:"comp_level" schema:"min=1,max=9,default=1" doc:"1 is the fastest, 9 the smallest."`
	Buffers   Buffers `json:"buffers"    schema:"default={\"number\":32,\"size\":4096}" doc:"Taken as APISIX does and without effect: memory is taken as needed."`
}

// Buffers are nginx's.
type Buffers struct {
	Number int `json:"number" schema:"min=1,default=32"   doc:"Without effect."`
	Size   int `json:"size"   schema:"min=1,default=4096" doc:"Without effect."`
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	encoders := plugin.Keep(env, "gzip/"+strconv.Itoa(c.CompLevel), func() *plugin.Encoders {
		return plugin.NewEncoders(func() plugin.Encoder {
			w, err := gzip.NewWriterLevel(nil, c.CompLevel)
			if err != nil {
				panic(err) // the schema knows the levels
			}
			return w
		})
	})
	encode := func(r *plugin.Ctx) plugin.BodyFilter {
		if !c.Suits(r) || !original(r.Response.Status) {
			return nil
		}
		if c.Vary {
			r.Response.Header.Add("Vary", "Accept-Encoding")
		}
		// nginx does not compress for proxies (gzip_proxied off).
		if _, proxy := r.Header("Via"); proxy || !r.AcceptsCoding("gzip", false) {
			return nil
		}
		r.Encoded("gzip")
		return encoders.Open(r)
	}
	return plugin.Phases{Encode: encode}, nil
}

// original says that nginx compresses answers of that status.
func original(status int) bool { return status == 200 || status == 403 || status == 404 }
