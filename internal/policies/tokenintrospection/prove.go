package tokenintrospection

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

// A form is the body of a request.
type form struct{ strings.Builder }

func (f *form) add(name, value string) {
	if f.Len() > 0 {
		f.WriteByte('&')
	}
	f.WriteString(name + "=" + url.QueryEscape(value))
}

// basic proves the gateway by its name and secret (RFC 6749 §2.3.1, without its
// escaping, as APIcast).
func basic(id, secret string) func(*plugin.Ctx, *form, http.Header) error {
	value := []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))}
	return func(_ *plugin.Ctx, _ *form, h http.Header) error {
		h["Authorization"] = value
		return nil
	}
}

// An assertion is what the gateway says of itself (RFC 7523 §3, OpenID Connect Core
// §9).
type assertion struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	ID       string `json:"jti"`
	Expires  int64  `json:"exp"`
	Issued   int64  `json:"iat"`
}

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// asserted proves the gateway by a token that it signs.
func asserted(c *Config, rt *threescale.Runtime, alg string, sign func([]byte) ([]byte, error)) func(*plugin.Ctx, *form, http.Header) error {
	encode := base64.RawURLEncoding.EncodeToString
	header := encode([]byte(`{"typ":"JWT","alg":"`+alg+`"}`)) + "."
	valid := int64(c.ExpiresIn)
	if valid <= 0 {
		valid = 60
	}
	return func(r *plugin.Ctx, f *form, _ http.Header) error {
		now := rt.Now().Unix()
		claims, err := json.Marshal(assertion{c.ClientID, c.ClientID, c.Audience, r.RequestID(), now + valid, now})
		if err != nil {
			return err
		}
		text := header + encode(claims)
		signature, err := sign([]byte(text))
		if err != nil {
			return err
		}
		f.add("client_id", c.ClientID)
		f.add("client_assertion_type", assertionType)
		f.add("client_assertion", text+"."+encode(signature))
		return nil
	}
}

func signHMAC(secret string) func([]byte) ([]byte, error) {
	return func(text []byte) ([]byte, error) {
		m := hmac.New(sha256.New, []byte(secret))
		m.Write(text)
		return m.Sum(nil), nil
	}
}
