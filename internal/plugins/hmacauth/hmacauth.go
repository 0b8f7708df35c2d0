// Package hmacauth admits requests that are signed with a consumer's key, in the
// manner of draft-cavage-http-signatures as APISIX understands it.
package hmacauth

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/wire"
)

const name = "hmac-auth"

// Plugin is hmac-auth as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     name,
		Priority: 2530,
		Type:     "auth",
		Doc:      "Authenticates consumers by an HMAC signature of the request in the Authorization header.",
	},
	compile,
	plugin.Shared(),
	plugin.Credential(func(c *Credential) string { return c.KeyID }),
)

// Config is the configuration on a route.
type Config struct {
	AllowedAlgorithms   []string `json:"allowed_algorithms" schema:"minItems=1,each.enum=hmac-sha1|hmac-sha256|hmac-sha512,default=[\"hmac-sha1\",\"hmac-sha256\",\"hmac-sha512\"]" doc:"Algorithms a client may use."`
	ClockSkew           int      `json:"clock_skew" schema:"default=300,min=1" doc:"Seconds by which the Date header may differ from the gateway's clock."`
	SignedHeaders       []string `json:"signed_headers" schema:"each.minLen=1,each.maxLen=50,default=[\"date\"]" doc:"What a client must have signed at least."`
	ValidateRequestBody bool     `json:"validate_request_body" schema:"default=false,description=A boolean value telling the plugin to enable body validation" doc:"Compare the body with the Digest header."`
	MaxReqBodySize      int64    `json:"max_req_body_size" schema:"min=1,default=67108864" doc:"Largest body, in bytes, that is read to be compared; a larger one is answered 413."`
	HideCredentials     bool     `json:"hide_credentials" schema:"default=false" doc:"Remove the Authorization header before the request goes upstream."`
	Realm               string   `json:"realm" schema:"default=hmac,minLen=1,maxLen=128,pattern=^[ -!#-[\\]-~]+$" doc:"Realm of the WWW-Authenticate header."`
	AnonymousConsumer   string   `json:"anonymous_consumer" schema:"minLen=1" doc:"Name of the consumer assumed when nobody else authenticates."`
}

// Constraints gives the schema its title.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.Keyword("title", `"work with route or service object"`)}
}

// Credential is what a consumer holds.
type Credential struct {
	KeyID     string `json:"key_id" schema:"minLen=1,maxLen=256,required" doc:"Name of the key, unique among consumers."`
	SecretKey string `json:"secret_key" schema:"minLen=1,maxLen=256,required,secret" doc:"The key. May refer to a secret."`

	idle [3]sync.Pool `json:"-"` // keyed hashes at rest, by algorithm
}

// Constraints gives the schema its title.
func (*Credential) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.Keyword("title", `"work with consumer object"`)}
}

type algorithm struct {
	name string
	hash func() hash.Hash
}

// algorithms is immutable.
var algorithms = [...]algorithm{{"hmac-sha1", sha1.New}, {"hmac-sha256", sha256.New}, {"hmac-sha512", sha512.New}}

// A mac is a keyed hash and room for its text and its sum.
type mac struct {
	hash.Hash
	text []byte
	sum  [sha512.Size]byte
}

func (c *Credential) take(algorithm int) *mac {
	if m, ok := c.idle[algorithm].Get().(*mac); ok {
		m.Reset()
		return m
	}
	return &mac{Hash: hmac.New(algorithms[algorithm].hash, []byte(c.SecretKey))}
}

// A verifier checks signatures as one configuration demands.
type verifier struct {
	*Config
	now    func() time.Time
	target expr.Var // path and query as variables have them
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	auth := plugin.NewAuthenticator(env, name, `hmac realm="`+c.Realm+`"`, c.AnonymousConsumer)
	const invalid = "client request can't be validated"
	refused := auth.Refusal(invalid)
	missing := auth.Refusal(invalid + ": missing Authorization header")
	foreign := auth.Refusal(invalid + ": Authorization header does not start with 'Signature'")
	large := plugin.JSON(413, map[string]string{
		"message": fmt.Sprintf("request size is greater than the maximum size %d allowed", c.MaxReqBodySize),
	})
	target, err := expr.Lookup("request_uri")
	if err != nil {
		return plugin.Phases{}, err
	}
	v := &verifier{c, env.Now, target}

	rewrite := func(r *plugin.Ctx) *plugin.Reply {
		header, ok := r.Header("Authorization")
		fields, signature := strings.CutPrefix(header, "Signature")
		var who *plugin.Consumer
		refusal := refused
		switch {
		case !ok:
			refusal = missing
		case !signature:
			refusal = foreign
		default:
			who = v.owner(r, parse(fields))
		}
		if who != nil && c.ValidateRequestBody {
			switch err := v.body(r); {
			case errors.Is(err, plugin.ErrBodyTooLarge):
				return large
			case err != nil:
				who = nil
			}
		}
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

// params are what the Authorization header says.
type params struct{ keyID, algorithm, headers, signature string }

// parse reads what follows the scheme: fields of the form name="value",
// separated by commas.
func parse(fields string) (p params) {
	for field := range strings.SplitSeq(fields, ",") {
		key, value, _ := strings.Cut(strings.TrimLeft(field, " \t"), `="`)
		value, _, closed := strings.Cut(value, `"`)
		if !closed {
			continue
		}
		switch key {
		case "keyId":
			p.keyID = value
		case "algorithm":
			p.algorithm = value
		case "headers":
			p.headers = value
		case "signature":
			p.signature = value
		}
	}
	return p
}

// owner is the consumer who signed the request, or nil.
func (v *verifier) owner(r *plugin.Ctx, p params) *plugin.Consumer {
	algorithm := slices.IndexFunc(algorithms[:], func(a algorithm) bool { return a.name == p.algorithm })
	if algorithm < 0 || !slices.Contains(v.AllowedAlgorithms, p.algorithm) || !v.inTime(r) || !v.signsEnough(p.headers) {
		return nil
	}
	who := r.Find(name, p.keyID)
	if who == nil {
		return nil
	}
	held := who.Credential.(*Credential)
	if schema.IsReference(held.SecretKey) {
		return nil // it could not be resolved, and its text is no secret
	}
	m := held.take(algorithm)
	defer held.idle[algorithm].Put(m)
	if !v.sign(m, r, p) || !matches(m.Sum(m.sum[:0]), p.signature) {
		return nil
	}
	return who
}

// inTime says whether the Date header is there and close to the gateway's time.
func (v *verifier) inTime(r *plugin.Ctx) bool {
	text, ok := r.Header("Date")
	if !ok {
		return false
	}
	date, ok := parseDate(text)
	apart := v.now().Unix() - date.Unix()
	return ok && max(apart, -apart) <= int64(v.ClockSkew)
}

// parseDate reads an HTTP date in any of its forms (RFC 9110 §5.6.7).
func parseDate(text string) (time.Time, bool) {
	for _, layout := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// signsEnough says whether the list of what is signed has all it must have.
func (v *verifier) signsEnough(headers string) bool {
	for _, required := range v.SignedHeaders {
		found := false
		for h := range strings.SplitSeq(headers, " ") {
			found = found || h == required
		}
		if !found {
			return false
		}
	}
	return true
}

// sign gives m the text that the client has signed. It fails where a signed
// header is repeated: what the signature covers would not be all that the
// upstream sees.
func (v *verifier) sign(m *mac, r *plugin.Ctx, p params) bool {
	b := append(append(m.text[:0], p.keyID...), '\n')
	for h := range strings.SplitSeq(p.headers, " ") {
		if h == "@request-target" {
			b = append(append(b, r.Request.Method...), ' ')
			b, _ = v.target.Append(b, r)
			b = append(b, '\n')
			continue
		}
		value, n := find(r, h)
		switch n {
		case 0:
		case 1:
			b = append(append(append(append(b, h...), ": "...), value...), '\n')
		default:
			return false
		}
	}
	m.text = b
	m.Write(b)
	return true
}

// find returns a header's value and how often it is there.
func find(r *plugin.Ctx, header string) (value string, n int) {
	fields := r.Request.Header.Fields()
	for i := range fields {
		if f := &fields[i]; !f.Dropped && wire.EqualFold(f.Name, header) {
			value = f.Value
			n++
		}
	}
	if n == 0 && wire.EqualFold(header, "host") && r.Request.Host != "" {
		return r.Request.Host, 1 // HTTP/2 has it elsewhere
	}
	return value, n
}

// matches compares a sum with a signature in base64, with or without padding.
func matches(sum []byte, signature string) bool {
	var in, out [2 * sha512.Size]byte
	text := strings.TrimRight(signature, "=")
	if len(text) > len(in) {
		return false
	}
	given, err := base64.RawStdEncoding.AppendDecode(out[:0], append(in[:0], text...))
	return err == nil && hmac.Equal(sum, given)
}

var errDigest = errors.New("the Digest header does not match the body")

// body compares the body with the Digest header.
func (v *verifier) body(r *plugin.Ctx) error {
	digest, _ := r.Header("Digest")
	given, ok := strings.CutPrefix(digest, "SHA-256=")
	if !ok {
		return errDigest
	}
	body, err := r.Buffer.Body(v.MaxReqBodySize)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(body); !matches(sum[:], given) {
		return errDigest
	}
	return nil
}
