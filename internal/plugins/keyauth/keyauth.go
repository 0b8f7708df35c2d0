// Package keyauth admits requests that carry a consumer's API key.
package keyauth

import (
	"strings"

	"weir/internal/plugin"
	"weir/internal/schema"
)

const name = "key-auth"

// Plugin is key-auth as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     name,
		Priority: 2500,
		Type:     "auth",
		Doc:      "Authenticates consumers by an API key in a header or in the query string.",
	},
	compile,
	plugin.Shared(),
	plugin.Credential(func(c *Credential) string { return c.Key }),
)

// Config is the configuration on a route.
type Config struct {
	Header            string `json:"header" schema:"default=apikey" doc:"Request header that carries the key."`
	Query             string `json:"query" schema:"default=apikey" doc:"Query argument that carries the key if the header is absent."`
	Realm             string `json:"realm" schema:"default=key,minLen=1,maxLen=128,pattern=^[ -!#-[\\]-~]+$" doc:"Realm of the WWW-Authenticate header."`
	HideCredentials   bool   `json:"hide_credentials" schema:"default=false" doc:"Remove the key before the request goes upstream."`
	AnonymousConsumer string `json:"anonymous_consumer" schema:"minLen=1" doc:"Name of the consumer assumed when the key is missing or wrong."`
}

// Credential is what a consumer holds.
type Credential struct {
	Key string `json:"key" schema:"required,secret" doc:"The API key, unique among consumers. May refer to a secret."`
}

// replies are the plugin's answers.
type replies struct{ missing, invalid, noAnonymous *plugin.Reply }

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	challenge := [2]string{"WWW-Authenticate", `apikey realm="` + c.Realm + `"`}
	refuse := func(msg string) *plugin.Reply {
		return plugin.JSON(401, map[string]string{"message": msg}, challenge)
	}
	say := replies{
		missing:     refuse("Missing API key in request"),
		invalid:     refuse("Invalid API key in request"),
		noAnonymous: refuse("Invalid user authorization"),
	}
	from := carrier{header: c.Header, dashed: strings.ReplaceAll(c.Header, "_", "-"), query: c.Query}

	rewrite := func(r *plugin.Ctx) *plugin.Reply {
		key := from.find(r)
		if r.Consumer = key.owner(r); r.Consumer != nil {
			if c.HideCredentials {
				from.hide(r, key.inHeader, !key.inHeader)
			}
			return nil
		}
		if c.AnonymousConsumer == "" {
			if !key.present {
				return say.missing
			}
			return say.invalid
		}
		if c.HideCredentials {
			from.hide(r, true, true)
		}
		if r.Consumer = r.Named(c.AnonymousConsumer); r.Consumer == nil {
			env.Log.Error("anonymous consumer not found", "plugin", name, "route", r.RouteID(), "consumer", c.AnonymousConsumer)
			return say.noAnonymous
		}
		return nil
	}
	return plugin.Phases{Rewrite: rewrite}, nil
}

// A carrier is where the key is looked for.
type carrier struct {
	header, dashed string // nginx finds x-y, too, when asked for x_y
	query          string
}

// A found key. One that is present but not usable belongs to nobody.
type found struct {
	text                      string
	present, usable, inHeader bool
}

// find looks in the header, whose first field decides, then in the query.
func (from *carrier) find(r *plugin.Ctx) found {
	key, ok := r.Header(from.header)
	if !ok {
		key, ok = r.Header(from.dashed)
	}
	if ok {
		return found{text: key, present: true, usable: true, inHeader: true}
	}
	return from.findArgument(r)
}

// findArgument takes the query argument. Given twice or without "=" it is a key
// that nobody has.
func (from *carrier) findArgument(r *plugin.Ctx) (key found) {
	for rest := r.RawQuery(); rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		k, v, valued := strings.Cut(pair, "=")
		if r.Unescape(k) != from.query || pair == "" {
			continue
		}
		if key.present {
			return found{present: true}
		}
		key = found{text: r.Unescape(v), present: true, usable: valued}
	}
	return key
}

// owner is the consumer that holds the key. The text of a reference is not the
// secret it refers to: it never authenticates, even if it could not be resolved.
func (key found) owner(r *plugin.Ctx) *plugin.Consumer {
	if !key.usable || schema.IsReference(key.text) {
		return nil
	}
	return r.Find(name, key.text)
}

func (from *carrier) hide(r *plugin.Ctx, header, query bool) {
	if header {
		r.DelHeader(from.header)
		r.DelHeader(from.dashed)
	}
	if query {
		r.DelQuery(from.query)
	}
}
