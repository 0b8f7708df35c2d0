package expr

import "weir/internal/plugin"

// Resolved reports whether any variable of the text has a value in this
// request.
func (t *Template) Resolved(c *plugin.Ctx) bool {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	for i := range t.parts {
		if _, ok := t.parts[i].v.Append((*b)[:0], c); ok {
			return true
		}
	}
	return false
}
