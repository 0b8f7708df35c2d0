package threescale

import (
	"weir/internal/plugin"
	"weir/internal/threescale/liquid"
)

// ClaimsOf is what templates know that have a token's claims for names, beside
// those of nginx (policy jwt_claim_check).
func ClaimsOf(c *plugin.Ctx) liquid.Scope {
	return func(name string) any {
		if v := nginxValue(name); v != nil {
			s, _ := v(c)
			return s
		}
		if name == "headers" {
			return headers{c}
		}
		if t := Of(c).Token; t != nil {
			return t.Claims[name]
		}
		return nil
	}
}
