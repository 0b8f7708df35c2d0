// Package jwtauth admits requests that carry a JSON Web Token (RFC 7519) signed
// with a consumer's key.
package jwtauth

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/wire"
)

const name = "jwt-auth"

// Plugin is jwt-auth as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     name,
		Priority: 2510,
		Type:     "auth",
		Doc:      "Authenticates consumers by a JSON Web Token in a header, the query string or a cookie.",
	},
	compile,
	plugin.Shared(),
	plugin.Credential(func(c *Credential) string { return c.Key }, (*Credential).validate),
)

// Config is the configuration on a route.
type Config struct {
	Header            string   `json:"header" schema:"default=authorization" doc:"Request header that carries the token, with or without \"Bearer \" before it."`
	Query             string   `json:"query" schema:"default=jwt" doc:"Query argument that carries the token if the header is absent."`
	Cookie            string   `json:"cookie" schema:"default=jwt" doc:"Cookie that carries the token if both are absent."`
	HideCredentials   bool     `json:"hide_credentials" schema:"default=false" doc:"Remove the token before the request goes upstream."`
	KeyClaimName      string   `json:"key_claim_name" schema:"default=key,minLen=1" doc:"Claim that holds the consumer's key."`
	StoreInCtx        bool     `json:"store_in_ctx" schema:"default=false" doc:"Keep the token's payload for the plugins that follow."`
	Realm             string   `json:"realm" schema:"default=jwt,minLen=1,maxLen=128,pattern=^[ -!#-[\\]-~]+$" doc:"Realm of the WWW-Authenticate header."`
	AnonymousConsumer string   `json:"anonymous_consumer" schema:"minLen=1" doc:"Name of the consumer assumed when nobody else authenticates."`
	ClaimsToVerify    []string `json:"claims_to_verify" schema:"each.enum=exp|nbf,unique" doc:"Claims that must be there and hold; the others are not looked at. Without any, exp and nbf must hold where they are there."`
}

// refusals are the plugin's answers.
type refusals struct{ missing, malformed, noKey, unknown, failed *plugin.Reply }

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	auth := plugin.NewAuthenticator(env, name, `Bearer realm="`+c.Realm+`"`, c.AnonymousConsumer)
	say := refusals{
		missing:   auth.Refusal("Missing JWT token in request"),
		malformed: auth.Refusal("JWT token invalid"),
		noKey:     auth.Refusal("missing user key in JWT token"),
		unknown:   auth.Refusal("Invalid user key in JWT token"),
		failed:    auth.Refusal("failed to verify jwt"),
	}
	from, err := newCarrier(c)
	if err != nil {
		return plugin.Phases{}, err
	}
	claims := claims{named: c.ClaimsToVerify}

	find := func(r *plugin.Ctx, text string) (*plugin.Consumer, *plugin.Reply) {
		b := buffers.Get().(*buffer)
		defer buffers.Put(b)
		t, ok := b.parse(text)
		if !ok {
			return nil, say.malformed
		}
		who, refusal := owner(r, t, c.KeyClaimName, &say)
		if who == nil {
			return nil, refusal
		}
		held := who.Credential.(*Credential)
		verified, unusable := held.verify(t)
		if unusable != nil {
			env.Log.Error("a credential can verify no token", "plugin", name, "consumer", who.Name, "credential", who.CredentialID, "err", unusable)
		}
		if !verified || !claims.hold(t.payload, env.Now(), held.grace()) {
			return nil, say.failed
		}
		if c.StoreInCtx {
			r.Claims = json.RawMessage(bytes.Clone(t.payload))
		}
		return who, nil
	}
	rewrite := func(r *plugin.Ctx) *plugin.Reply {
		text, place := from.find(r)
		var who *plugin.Consumer
		refusal := say.missing
		if place != nowhere {
			who, refusal = find(r, text)
		}
		if reply := auth.Admit(r, who, refusal); reply != nil {
			return reply
		}
		if c.HideCredentials {
			from.hide(r, place)
		}
		return nil
	}
	return plugin.Phases{Rewrite: rewrite}, nil
}

// owner is the consumer whose key the token names. The token is not verified yet.
func owner(r *plugin.Ctx, t token, claim string, say *refusals) (*plugin.Consumer, *plugin.Reply) {
	value := t.payload.Member(claim)
	if value == nil || string(value) == "false" {
		return nil, say.noKey
	}
	key, ok := r.Text(value)
	if !ok || schema.IsReference(key) {
		return nil, say.unknown
	}
	return r.Find(name, key), say.unknown
}

// claims are the registered claims to look at (RFC 7519 §4.1).
type claims struct{ named []string }

// hold says whether the payload is valid at that time, give or take grace.
func (c claims) hold(payload plugin.Object, now time.Time, grace time.Duration) bool {
	at := func(claim string, required bool) bool {
		value := payload.Member(claim)
		if value == nil {
			return !required
		}
		date, ok := number(value)
		if claim == "exp" {
			return ok && date > float64(now.Add(-grace).Unix())
		}
		return ok && date <= float64(now.Add(grace).Unix())
	}
	if len(c.named) == 0 {
		return at("exp", false) && at("nbf", false)
	}
	for _, claim := range c.named {
		if !at(claim, true) {
			return false
		}
	}
	return true
}

// A carrier is where the token is looked for.
type carrier struct {
	header, dashed string // nginx finds x-y, too, when asked for x_y
	query          string
	cookieName     string
	cookie         expr.Var
}

func newCarrier(c *Config) (*carrier, error) {
	from := &carrier{header: c.Header, dashed: strings.ReplaceAll(c.Header, "_", "-"), query: c.Query, cookieName: c.Cookie}
	var err error
	if c.Cookie != "" {
		from.cookie, err = expr.Lookup("cookie_" + c.Cookie)
	}
	return from, err
}

type place uint8

const (
	nowhere place = iota
	inHeader
	inQuery
	inCookie
)

func (from *carrier) find(r *plugin.Ctx) (text string, at place) {
	text, ok := r.Header(from.header)
	if !ok {
		text, ok = r.Header(from.dashed)
	}
	if ok {
		const scheme = "Bearer "
		if len(text) >= len(scheme) && wire.EqualFold(text[:len(scheme)], scheme) {
			text = text[len(scheme):]
		}
		return text, inHeader
	}
	if text, ok = r.Query(from.query); ok {
		return text, inQuery
	}
	if text, ok = from.cookie.Value(r); ok {
		return text, inCookie
	}
	return "", nowhere
}

func (from *carrier) hide(r *plugin.Ctx, at place) {
	switch at {
	case inHeader:
		r.DelHeader(from.header)
		r.DelHeader(from.dashed)
	case inQuery:
		r.DelQuery(from.query)
	case inCookie:
		from.hideCookie(r)
	}
}

// hideCookie leaves one Cookie header with the other cookies (RFC 6265 §5.4), or
// none.
func (from *carrier) hideCookie(r *plugin.Ctx) {
	var stack [512]byte
	left := stack[:0]
	fields := r.Request.Header.Fields()
	for i := range fields {
		if f := &fields[i]; f.Dropped || !wire.EqualFold(f.Name, "cookie") {
			continue
		}
		for pair := range strings.SplitSeq(fields[i].Value, ";") {
			pair = strings.Trim(pair, " \t")
			if k, _, _ := strings.Cut(pair, "="); k == from.cookieName || pair == "" {
				continue
			}
			if len(left) > 0 {
				left = append(left, "; "...)
			}
			left = append(left, pair...)
		}
	}
	r.DelHeader("Cookie")
	if len(left) > 0 {
		r.SetHeader("Cookie", r.Keep(left))
	}
}
