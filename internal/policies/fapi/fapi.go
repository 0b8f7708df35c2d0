// Package fapi is what the financial-grade API profiles ask of a resource server
// (FAPI 1.0).
package fapi

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"strings"

	"weir/internal/plugin"
	"weir/internal/threescale"
	"weir/internal/wire"
)

// Policy is fapi.
var Policy = plugin.Define(
	plugin.Meta{Name: "fapi", Guard: true, Doc: "Names each interaction in answers, and checks the customer's address and certificate-bound tokens (FAPI 1.0)."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration.
type Config struct {
	CustomerIP bool `json:"validate_x_fapi_customer_ip_address" doc:"Refuse requests whose x-fapi-customer-ip-address is no IP address."`
	Bound      bool `json:"validate_oauth2_certificate_bound_access_token" doc:"Admit a token only with the client certificate that its claim cnf names (RFC 8705)."`

	// The form of APIcast's manifest, and so of 3scale's portal, has a space at the
	// end of the name.
	BoundAsForm bool `json:"validate_oauth2_certificate_bound_access_token " doc:"The same, as 3scale's portal writes it."`
}

const (
	interaction = "x-fapi-interaction-id"
	customerIP  = "x-fapi-customer-ip-address"
)

// The refusals are immutable.
var (
	badToken   = refusal(401, "invalid_token")
	badRequest = refusal(403, "invalid_request")
)

func refusal(status int, why string) *plugin.Reply {
	return plugin.Text(status, `{"error": "`+why+`"}`, [2]string{"Content-Type", "application/json; charset=utf-8"})
}

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	p := plugin.Phases{Header: nameInteraction}
	bound := c.Bound || c.BoundAsForm
	if bound || c.CustomerIP {
		p.Access = func(r *plugin.Ctx) *plugin.Reply {
			switch {
			case bound && !threescale.Bound(r):
				return badToken
			case c.CustomerIP && !customerKnown(&r.Request.Header):
				return badRequest
			}
			return nil
		}
	}
	return p, nil
}

// customerKnown says that the customer's address, if there is one, is one
// (§6.2.1 no. 13).
func customerKnown(h *wire.Header) bool {
	seen := false
	for _, f := range h.Fields() {
		if f.Dropped || !wire.EqualFold(f.Name, customerIP) {
			continue
		}
		text := f.Value
		if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") && strings.Contains(text, ":") {
			text = text[1 : len(text)-1]
		}
		if a, err := netip.ParseAddr(text); seen || err != nil || a.Zone() != "" {
			return false
		}
		seen = true
	}
	return true
}

// nameInteraction has the answer name the interaction as the request does, or
// else the upstream, or else anew (§6.2.1 no. 11).
func nameInteraction(c *plugin.Ctx) {
	id, _ := c.Header(interaction)
	if id == "" {
		if id, _ = c.Response.Header.Get(interaction); id != "" {
			return
		}
		id = newID(c)
	}
	c.Response.Header.Set(interaction, id)
}

// newID is a random UUID (RFC 9562 §5.4).
func newID(c *plugin.Ctx) string {
	var raw [16]byte
	binary.NativeEndian.PutUint64(raw[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(raw[8:], rand.Uint64())
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	var text [36]byte
	at := 0
	for i, n := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			text[at] = '-'
			at++
		}
		from := (at - i) / 2
		at += hex.Encode(text[at:], raw[from:from+n])
	}
	return c.Keep(text[:])
}
