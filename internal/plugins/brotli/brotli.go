// Package brotli compresses responses (RFC 7932).
package brotli

import (
	"fmt"

	"github.com/andybalholm/brotli"

	"weir/internal/plugin"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: "brotli", Priority: 996, Doc: "Compresses responses with Brotli for clients that take it."},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	plugin.Compression
	Mode      int `json:"mode"       schema:"min=0,max=2,default=0" doc:"0: any content, 1: text, 2: fonts. Taken as APISIX does and without effect."`
	CompLevel int `json:"comp_level" schema:"min=0,max=11,default=6" doc:"0 is the fastest, 11 the smallest."`
	LGWin     int `json:"lgwin"      schema:"default=19,enum=0|10|11|12|13|14|15|16|17|18|19|20|21|22|23|24" doc:"Size of the window as a power of two; 0: by the level."`
	LGBlock   int `json:"lgblock"    schema:"default=0,enum=0|16|17|18|19|20|21|22|23|24" doc:"Size of the blocks as a power of two. Taken as APISIX does and without effect."`
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	options := brotli.WriterOptions{Quality: c.CompLevel, LGWin: c.LGWin}
	encoders := plugin.Keep(env, fmt.Sprintf("brotli/%d/%d", c.CompLevel, c.LGWin), func() *plugin.Encoders {
		return plugin.NewEncoders(func() plugin.Encoder { return brotli.NewWriterOptions(nil, options) })
	})
	encode := func(r *plugin.Ctx) plugin.BodyFilter {
		if !r.AcceptsCoding("br", true) || !c.Suits(r) {
			return nil
		}
		if c.Vary {
			r.Response.Header.Add("Vary", "Accept-Encoding")
		}
		r.Encoded("br")
		return encoders.Open(r)
	}
	return plugin.Phases{Encode: encode}, nil
}
