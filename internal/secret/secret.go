// Package secret replaces references to secrets by what they refer to.
package secret

import (
	"bytes"
	"encoding/json"
	"strings"

	"weir/internal/document"
)

// scheme of references to the environment (APISIX: $env://NAME[/json_key], in
// any case).
const envScheme = "$env://"

// Env resolves references to environment variables. lookup is os.LookupEnv.
type Env struct {
	Lookup func(string) (string, bool)
}

// Resolve returns the JSON document with every string that is a reference
// replaced. A reference to what does not exist stays as it is: its text never
// passes for the secret.
func (e Env) Resolve(raw []byte) []byte {
	// APISIX writes "/" as "\/"; "$" may be written by its number.
	if !containsFold(raw, "$env:") && !bytes.Contains(raw, []byte(`\u`)) {
		return raw
	}
	v, err := document.Parse(raw)
	if err != nil {
		return raw
	}
	v.EachString(func(s string) string {
		if value, ok := e.Value(s); ok {
			return value
		}
		return s
	})
	return v.Append(nil)
}

// Value is what one reference refers to; ok is false if it refers to nothing,
// or s is no reference.
func (e Env) Value(s string) (value string, ok bool) {
	if len(s) < len(envScheme) || !strings.EqualFold(s[:len(envScheme)], envScheme) {
		return "", false
	}
	name, key, sub := strings.Cut(s[len(envScheme):], "/")
	value, ok = e.Lookup(name)
	if !ok || !sub {
		return value, ok
	}
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(value), &members) != nil {
		return "", false
	}
	var text string
	if json.Unmarshal(members[key], &text) != nil {
		return "", false
	}
	return text, true
}

func containsFold(b []byte, s string) bool {
	for {
		i := bytes.IndexByte(b, s[0])
		if i < 0 || len(b)-i < len(s) {
			return false
		}
		if strings.EqualFold(string(b[i:i+len(s)]), s) {
			return true
		}
		b = b[i+1:]
	}
}
