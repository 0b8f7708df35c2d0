package threescale

import (
	"strings"

	"weir/internal/plugin"
)

// Bearer is the token in a request's Authorization header (RFC 6750 §2.1), whose
// scheme is compared exactly, as in APIcast; ok is false if there is none.
func Bearer(c *plugin.Ctx) (token string, ok bool) {
	value, _ := c.Header("Authorization")
	rest, ok := strings.CutPrefix(value, "Bearer")
	if !ok || rest != "" && alphanumeric(rest[0]) {
		return "", false
	}
	return strings.TrimLeft(rest, " \t"), true
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}
