package threescale

import "weir/internal/plugin"

// Count matches the request with the product's mapping rules: what it counts is
// added to Usage (apicast.md §2.4).
func (r *Request) Count(c *plugin.Ctx) {
	path := r.EscapedPath()
	argument := func(name string) (string, bool) {
		if form := r.Form(c); form != "" {
			if v, ok := LastArgument(form, name); ok {
				return v, true
			}
		}
		return LastArgument(r.Query, name)
	}
	for _, rule := range r.Product.Rules {
		if !rule.Matches(c.Request.Method, path, argument) {
			continue
		}
		r.Usage.Add(rule.Metric, rule.Delta)
		r.Matched = append(r.Matched, rule)
		if rule.Last {
			break
		}
	}
	r.Usage.Trim()
}
