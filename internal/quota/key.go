package quota

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"strconv"

	"weir/internal/expr"
	"weir/internal/plugin"
)

// The values of key_type.
const (
	Var         = "var"
	Combination = "var_combination"
	Constant    = "constant"
)

// A Key tells callers apart.
type Key struct {
	name expr.Var
	text *expr.Template // nil: the variable
	all  bool           // constant
	same string         // for everybody, if constant
}

// NewKey compiles the properties key and key_type.
func NewKey(key, keyType string) (k Key, err error) {
	switch keyType {
	case Constant:
		k.same, k.all = key, true
	case Combination:
		k.text, err = expr.Parse(key)
	default:
		k.name, err = expr.Variable(key)
	}
	return k, err
}

// Append appends the caller's key: where it has none, the client's address.
func (k *Key) Append(dst []byte, c *plugin.Ctx) []byte {
	from := len(dst)
	ok := true
	switch {
	case k.all:
		dst = append(dst, k.same...)
	case k.text != nil:
		var n int
		dst, n = k.text.Resolve(dst, c)
		ok = n > 0
	default:
		dst, ok = k.name.Append(dst, c)
	}
	if !ok {
		dst = append(dst[:from], c.Client...)
	}
	return dst
}

// Resolve appends the text of a Combination, and says how many of its variables
// have a value or a default.
func (k *Key) Resolve(dst []byte, c *plugin.Ctx) (text []byte, resolved int) {
	return k.text.Resolve(dst, c)
}

// Prefix begins the counters of one configuration: the object that carries it
// and a sum of the configuration itself without _meta. So counters stay when
// anything else changes, and begin anew with another configuration. (The form
// is APISIX's, /apisix/routes/1:SUM:.)
func Prefix(env plugin.Env) string {
	h := fnv.New64a()
	h.Write(canonical(env.Raw)) // never fails
	return "/apisix/" + env.Owner + ":" + strconv.FormatUint(h.Sum64(), 10) + ":"
}

// canonical is a configuration without _meta, the same however it is written.
func canonical(raw json.RawMessage) []byte {
	var conf map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&conf) != nil {
		return raw
	}
	delete(conf, "_meta")
	text, err := json.Marshal(conf)
	if err != nil {
		return raw
	}
	return text
}
