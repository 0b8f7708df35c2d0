package expr

import "weir/internal/plugin"

// Resolve is Append that also counts the variables for which there was a value
// or a default (the third result of APISIX's core.utils.resolve_var).
func (t *Template) Resolve(dst []byte, c *plugin.Ctx) (text []byte, resolved int) {
	for i := range t.parts {
		p := &t.parts[i]
		dst = append(dst, p.literal...)
		var ok bool
		if dst, ok = p.v.Append(dst, c); !ok {
			dst = append(dst, p.other...)
		}
		if ok || p.other != "" {
			resolved++
		}
	}
	return dst, resolved
}
