package threescale

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/model"
	"weir/internal/schema"
)

// Why a token is refused (apicast.md §4.2).
var (
	ErrUnknownKey = errors.New("[jwk] not found, token might belong to a different realm")

	errNoOIDC   = errors.New("missing OIDC configuration")
	errNoToken  = errors.New("JWT not valid")
	errAlg      = errors.New("[jwt] invalid alg")
	errOtherAlg = errors.New("[jwt] alg mismatch")
	errCritical = errors.New("[jwt] an extension that must be understood is not")
	errForged   = errors.New("JWT not verified: signature mismatch")
)

// An Issuer verifies the tokens of one issuer. It is immutable.
type Issuer struct {
	name       string
	algorithms []string
	keys       map[string]*verifier
	rt         *Runtime
	number     uint64 // of this issuer in the process, in keys of the cache
	missing    bool   // there is no configuration: every token is refused

	clientID func(*Token) string // of the application that a token was given to; nil: nobody asks
}

// NewIssuer compiles what is known of an issuer; nil: nothing, all its tokens are
// refused. The error tells which keys cannot be used: tokens that name them are
// refused.
func NewIssuer(rt *Runtime, o *model.OIDC) (*Issuer, error) {
	i := &Issuer{rt: rt, number: rt.issuers.Add(1), keys: map[string]*verifier{}}
	if o == nil || o.Issuer == "" || len(o.Algorithms) == 0 {
		i.missing = true
		return i, errNoOIDC
	}
	i.name, i.algorithms = o.Issuer, o.Algorithms
	var faults []error
	for id, k := range o.Keys {
		v, err := newVerifier(k)
		if err != nil {
			faults = append(faults, fmt.Errorf("key %q of %s: %w", id, o.Issuer, err))
			continue
		}
		if v.weak() {
			rt.Log.Warn("a key of an issuer is so short that its tokens can be forged", "issuer", o.Issuer, "key", id)
		}
		i.keys[id] = v
	}
	return i, errors.Join(faults...)
}

// Name is the issuer's name in its tokens; empty: nothing is known of it.
func (i *Issuer) Name() string { return i.name }

// Verify returns the token that raw is, if the issuer has issued it and it is
// valid now. A valid one is remembered until it ends.
func (i *Issuer) Verify(raw string, now time.Time) (*Token, error) {
	if i.missing {
		return nil, errNoOIDC
	}
	b := tokenBuffers.Get().(*tokenBuffer)
	defer tokenBuffers.Put(b)
	b.key = append(binary.BigEndian.AppendUint64(b.key[:0], i.number), raw...)
	if t, ok := i.rt.tokens.Get(b.key); ok && t.Expires.After(now) {
		return t, nil
	}
	t, err := i.verify(b, raw, now)
	if err != nil {
		return nil, err
	}
	t.Raw = strings.Clone(raw)
	if i.clientID != nil {
		t.clientID, t.sum = i.clientID(t), sha256.Sum256([]byte(raw))
	}
	// What the claims take is about what their text does, several times.
	i.rt.tokens.Put(b.key, t, len(raw)+8*len(t.Payload), t.Expires.Sub(now))
	return t, nil
}

// A tokenBuffer is memory for one token on its way.
type tokenBuffer struct{ key, decoded []byte }

var tokenBuffers = sync.Pool{New: func() any { return new(tokenBuffer) }}

// decode decodes base64url, with or without padding.
func (b *tokenBuffer) decode(part string) ([]byte, error) {
	from := len(b.decoded)
	out, err := base64.RawURLEncoding.AppendDecode(b.decoded, []byte(strings.TrimRight(part, "=")))
	if err != nil {
		return nil, errNoToken
	}
	b.decoded = out
	return out[from:], nil
}

// verify takes a compact JWS apart (RFC 7515 §7.1) and checks it.
func (i *Issuer) verify(b *tokenBuffer, raw string, now time.Time) (*Token, error) {
	b.decoded = b.decoded[:0]
	head, rest, ok := strings.Cut(raw, ".")
	body, sum, more := strings.Cut(rest, ".")
	if !ok || !more || strings.Contains(sum, ".") {
		return nil, errNoToken
	}
	key, alg, err := i.choose(b, head)
	if err != nil {
		return nil, err
	}
	signature, err := b.decode(sum)
	if err != nil {
		return nil, err
	}
	if !key.verify(alg, []byte(raw[:len(head)+1+len(body)]), signature) {
		return nil, errForged
	}
	payload, err := b.decode(body)
	if err != nil {
		return nil, err
	}
	t := &Token{Payload: slices.Clone(payload)}
	if json.Unmarshal(t.Payload, &t.Claims) != nil || t.Claims == nil {
		return nil, errNoToken
	}
	t.Expires, err = i.check(t.Claims, now)
	return t, err
}

// choose finds the key that a token's header names.
func (i *Issuer) choose(b *tokenBuffer, head string) (key *verifier, alg string, err error) {
	text, err := b.decode(head)
	if err != nil {
		return nil, "", err
	}
	var h struct {
		Alg      string          `json:"alg"`
		Key      *string         `json:"kid"`
		Critical json.RawMessage `json:"crit"`
	}
	if json.Unmarshal(text, &h) != nil {
		return nil, "", errNoToken
	}
	if !slices.Contains(i.algorithms, h.Alg) {
		return nil, "", errAlg
	}
	if h.Critical != nil {
		return nil, "", errCritical
	}
	if h.Key != nil {
		key = i.keys[*h.Key]
	}
	switch {
	case key == nil:
		return nil, "", ErrUnknownKey
	case key.alg != "" && key.alg != h.Alg:
		return nil, "", errOtherAlg
	}
	return key, h.Alg, nil
}

// check checks the claims and returns when the token ends.
func (i *Issuer) check(claims map[string]any, now time.Time) (ends time.Time, err error) {
	for _, name := range [...]string{"iss", "sub", "aud"} {
		if claims[name] == nil {
			return ends, claimError(name)
		}
	}
	seconds := float64(now.UnixNano()) / 1e9
	if claims["iss"] != i.name {
		return ends, claimError("iss")
	}
	exp, ok := claims["exp"].(float64)
	if !ok || exp <= seconds {
		return ends, claimError("exp")
	}
	if nbf, there := claims["nbf"]; there {
		if v, ok := nbf.(float64); !ok || v > seconds {
			return ends, claimError("nbf")
		}
	}
	if iat, there := claims["iat"]; there {
		if v, ok := iat.(float64); !ok || v <= 0 {
			return ends, claimError("iat")
		}
	}
	if kind, there := claims["typ"]; there && kind != "Bearer" {
		return ends, claimError("typ")
	}
	left := min(exp-seconds, float64(farthest/time.Second))
	return now.Add(schema.Seconds(left)), nil
}

// farthest is how long a token is remembered at most.
const farthest = 24 * 365 * time.Hour

// A claimError names the claim that is missing or not as it must be.
type claimError string

func (e claimError) Error() string { return "JWT not verified: claim " + string(e) }
