// Package basicauth admits requests that carry a consumer's user name and
// password (RFC 7617).
package basicauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"

	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/wire"
)

const name = "basic-auth"

// Plugin is basic-auth as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     name,
		Priority: 2520,
		Type:     "auth",
		Doc:      "Authenticates consumers by a user name and a password in the Authorization header.",
	},
	compile,
	plugin.Shared(),
	plugin.Credential(func(c *Credential) string { return c.Username }),
)

// Config is the configuration on a route.
type Config struct {
	HideCredentials   bool   `json:"hide_credentials" schema:"default=false" doc:"Remove the Authorization header before the request goes upstream."`
	Realm             string `json:"realm" schema:"default=basic,minLen=1,maxLen=128,pattern=^[ -!#-[\\]-~]+$" doc:"Realm of the WWW-Authenticate header."`
	AnonymousConsumer string `json:"anonymous_consumer" schema:"minLen=1" doc:"Name of the consumer assumed when nobody else authenticates."`
}

// Constraints gives the schema its title.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.Keyword("title", `"work with route or service object"`)}
}

// Credential is what a consumer holds.
type Credential struct {
	Username string `json:"username" schema:"required" doc:"The user name, unique among consumers."`
	Password string `json:"password" schema:"required,secret" doc:"The password. May refer to a secret."`
}

// Constraints gives the schema its title.
func (*Credential) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.Keyword("title", `"work with consumer object"`)}
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	auth := plugin.NewAuthenticator(env, name, `Basic realm="`+c.Realm+`"`, c.AnonymousConsumer)
	missing := auth.Refusal("Missing authorization in request")
	invalid := auth.Refusal("Invalid authorization in request")
	unknown := auth.Refusal("Invalid user authorization")

	find := func(r *plugin.Ctx) (*plugin.Consumer, *plugin.Reply) {
		header, ok := r.Header("Authorization")
		if !ok {
			return nil, missing
		}
		user, password, ok := parse(r, header)
		if !ok {
			return nil, invalid
		}
		return owner(r, user, password), unknown
	}
	rewrite := func(r *plugin.Ctx) *plugin.Reply {
		who, refusal := find(r)
		if reply := auth.Admit(r, who, refusal); reply != nil {
			return reply
		}
		if c.HideCredentials {
			r.DelHeader("Authorization")
		}
		return nil
	}
	return plugin.Phases{Rewrite: rewrite}, nil
}

// room is what most credentials fit in, so that they are looked at on the stack.
const room = 256

// parse reads the header's value. It takes base64 without padding, too, as
// nginx does.
func parse(r *plugin.Ctx, header string) (user, password string, ok bool) {
	const scheme = "basic"
	if len(header) <= len(scheme) || !wire.EqualFold(header[:len(scheme)], scheme) {
		return "", "", false
	}
	encoded := strings.Trim(header[len(scheme):], " \t")
	if len(encoded) == len(header)-len(scheme) {
		return "", "", false // nothing between the scheme and what follows
	}
	encoded = strings.TrimRight(encoded, "=")
	var in, out [room]byte
	text, err := base64.RawStdEncoding.AppendDecode(out[:0], append(in[:0], encoded...))
	if err != nil {
		return "", "", false
	}
	return strings.Cut(r.Keep(text), ":")
}

// owner is the consumer of that name and password, or nil.
//
// The password is what follows the first colon (RFC 7617 §2). APISIX compares
// what is between the first and the second one, without white space, and a
// client may have come to rely on it; either will do.
func owner(r *plugin.Ctx, user, password string) *plugin.Consumer {
	who := r.Find(name, user)
	if who == nil {
		who = r.Find(name, withoutSpace(r, user))
	}
	// A caller must not learn from the time it takes whether the user exists.
	held := new(Credential)
	if who != nil {
		held = who.Credential.(*Credential)
	}
	short, _, _ := strings.Cut(password, ":")
	match := equal(held.Password, password) | equal(held.Password, withoutSpace(r, short))
	if match == 0 || who == nil || schema.IsReference(held.Password) {
		return nil
	}
	return who
}

// equal compares in a time that depends on the lengths alone.
func equal(a, b string) int {
	x, y := digest(a), digest(b)
	return subtle.ConstantTimeCompare(x[:], y[:])
}

func digest(s string) [sha256.Size]byte {
	var stack [room]byte
	return sha256.Sum256(append(stack[:0], s...))
}

// withoutSpace is s without white space anywhere.
func withoutSpace(r *plugin.Ctx, s string) string {
	const space = " \t\n\v\f\r"
	if !strings.ContainsAny(s, space) {
		return s
	}
	var stack [room]byte
	b := stack[:0]
	for i := range len(s) {
		if strings.IndexByte(space, s[i]) < 0 {
			b = append(b, s[i])
		}
	}
	return r.Keep(b)
}
