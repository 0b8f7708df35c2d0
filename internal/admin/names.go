package admin

import (
	"strings"

	"weir/internal/document"
)

// dotted returns what lies at a dotted path, or nil.
func dotted(v *document.Value, path string) *document.Value {
	for _, name := range strings.Split(path, ".") {
		v = v.Get(name)
	}
	return v
}
