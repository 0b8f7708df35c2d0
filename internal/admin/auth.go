package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
)

// hashedKey is a key of the configuration. Comparing hashes takes the same time
// wherever, and at whatever length, two keys differ.
type hashedKey struct {
	sum  [sha256.Size]byte
	name string
	role string
}

func hashKeys(keys []Key) []hashedKey {
	var out []hashedKey
	for _, k := range keys {
		if k.Key != "" {
			out = append(out, hashedKey{sha256.Sum256([]byte(k.Key)), k.Name, k.Role})
		}
	}
	return out
}

// admitted returns whose key the request carries, or what it gets instead of
// what it asks for.
func (a *API) admitted(r *http.Request) (who string, refused *answer) {
	who, reason := a.authenticate(r)
	if reason == "" {
		return who, nil
	}
	return "", &answer{
		status: http.StatusUnauthorized,
		body:   object("error_msg", "failed to check token", "description", reason),
	}
}

// authenticate returns whose key the request carries, or why it is refused.
func (a *API) authenticate(r *http.Request) (who, refusal string) {
	if !a.cfg.KeyRequired {
		return "", ""
	}
	token, given := tokenOf(r)
	if !given {
		return "", "missing apikey"
	}
	sum := sha256.Sum256([]byte(token))
	var found *hashedKey
	for i := range a.keys {
		if subtle.ConstantTimeCompare(sum[:], a.keys[i].sum[:]) == 1 && found == nil {
			found = &a.keys[i]
		}
	}
	switch {
	case found == nil:
		return "", "wrong apikey"
	case found.role == "viewer" && r.Method != http.MethodGet:
		return "", "invalid method for role viewer"
	}
	return found.name, ""
}

// tokenOf looks for a key in the query, then in the header, then in the cookie.
// The header may be spelled with underscores, as nginx's variable for it reads
// both.
func tokenOf(r *http.Request) (token string, given bool) {
	if q := r.URL.Query(); q.Has("api_key") {
		return q.Get("api_key"), true
	}
	for _, name := range []string{"X-Api-Key", "X_api_key"} {
		if h := r.Header.Values(name); len(h) > 0 {
			return h[0], true
		}
	}
	c, err := r.Cookie("x_api_key")
	if err != nil {
		return "", false
	}
	return c.Value, true
}
