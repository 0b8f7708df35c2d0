package threescale

import (
	"crypto/subtle"
	"strings"

	"weir/internal/plugin"
)

// Debug shows the caller what became of the request, if that knows the product's
// secret (apicast.md §4.5).
func (r *Request) Debug(c *plugin.Ctx) {
	shown, ok := c.Header("X-3scale-debug")
	p := r.Product
	if !ok || p.BackendAuthValue == "" || subtle.ConstantTimeCompare([]byte(shown), []byte(p.BackendAuthValue)) != 1 {
		return
	}
	patterns := make([]string, len(r.Matched))
	for i, m := range r.Matched {
		patterns[i] = m.Pattern
	}
	for _, h := range [...][2]string{
		{"X-3scale-matched-rules", strings.Join(patterns, ", ")},
		{"X-3scale-credentials", string(appendCredentials(nil, &r.Credentials))},
		{"X-3scale-usage", r.Usage.encoded()},
		{"X-3scale-hostname", p.Runtime.hostname},
		{"X-3scale-service-id", p.ID},
		{"X-3scale-service-name", p.SystemName},
	} {
		c.SetReplyHeader(h[0], h[1])
	}
}
