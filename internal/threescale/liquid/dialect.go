package liquid

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"

	"github.com/osteele/liquid/expressions"
	"github.com/osteele/liquid/filters"
	"github.com/osteele/liquid/parser"
	"github.com/osteele/liquid/render"
	"github.com/osteele/liquid/tags"
)

// dialect is the library's configuration: immutable after its first use.
var dialect = sync.OnceValue(func() render.Config {
	c := render.NewConfig()
	filters.AddStandardFilters(&c)
	tags.AddStandardTags(c)
	c.AddTag("include", func(string) (func(io.Writer, render.Context) error, error) {
		return nil, errors.New("there are no other templates to include")
	})
	c.AddBlock(ownLoop).Clause("else").Compiler(compileLoop)
	c.AddBlock(ownCapture).Compiler(compileCapture)
	for name, f := range ownFilters() {
		c.AddFilter(name, f)
	}
	return c
})

// The library's tags cannot be replaced; those that are to do something else have
// other names in its sight.
const (
	ownLoop    = "none_of"
	ownCapture = "keep_as"
)

var ownTags = map[string]string{
	"for": ownLoop, "endfor": "end" + ownLoop,
	"tablerow": ownLoop, "endtablerow": "end" + ownLoop,
	"capture": ownCapture, "endcapture": "end" + ownCapture,
}

// renamed is the template with its own tags.
func renamed(tokens []parser.Token) string {
	var b strings.Builder
	raw := false
	for _, t := range tokens {
		if t.Type == parser.TagTokenType {
			raw = t.Name == "raw" || raw && t.Name != "endraw"
			if own := ownTags[t.Name]; own != "" && !raw {
				b.WriteString(strings.Replace(t.Source, t.Name, own, 1))
				continue
			}
		}
		b.WriteString(t.Source)
	}
	return b.String()
}

var errLoop = errors.New("loops are limited to 0 iterations")

// compileLoop compiles a loop: over nothing it shows its else, else it fails.
func compileLoop(node render.BlockNode) (func(io.Writer, render.Context) error, error) {
	stmt, err := expressions.ParseStatement(expressions.LoopStatementSelector, node.Args)
	if err != nil {
		return nil, err
	}
	return func(w io.Writer, c render.Context) error {
		v, err := c.Evaluate(stmt.Loop.Expr)
		if err != nil {
			return err
		}
		if k := reflect.ValueOf(v); k.IsValid() && (k.Kind() != reflect.Slice || k.Len() > 0) && k.Kind() != reflect.String {
			return errLoop
		}
		if len(node.Clauses) == 1 {
			return c.RenderBlock(w, node.Clauses[0])
		}
		return nil
	}, nil
}

// compileCapture compiles a block whose text is assigned to a name.
func compileCapture(node render.BlockNode) (func(io.Writer, render.Context) error, error) {
	name := strings.TrimSpace(node.Args)
	return func(_ io.Writer, c render.Context) error {
		s, err := c.InnerString()
		if err != nil {
			return err
		}
		if len(s) > Limit {
			return errLong
		}
		c.Set(name, s)
		return nil
	}, nil
}
