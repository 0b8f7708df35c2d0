// Package quota is what plugins that count requests have in common: whole
// numbers that may come from a variable, the keys by which callers are told
// apart, and limit-count's way to count by them, in this process or in Redis.
package quota

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"weir/internal/expr"
	"weir/internal/plugin"
)

// An Amount is a whole number, or a template that gives one for each request.
type Amount struct {
	number int64
	text   *expr.Template // nil: the number
	raw    string
}

// Number is the Amount n.
func Number(n int) Amount { return Amount{number: int64(n)} }

// A Positive is an Amount of at least 1.
type Positive struct{ Amount }

// A Natural is an Amount of at least 0.
type Natural struct{ Amount }

// JSONSchema implements schema.Describer.
func (Positive) JSONSchema() []byte {
	return []byte(`{"oneOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "string"}]}`)
}

// JSONSchema implements schema.Describer.
func (Natural) JSONSchema() []byte {
	return []byte(`{"oneOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}`)
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Amount) UnmarshalJSON(b []byte) error {
	a.raw = string(b)
	var text string
	if json.Unmarshal(b, &text) != nil {
		return json.Unmarshal(b, &a.number)
	}
	var err error
	a.text, err = expr.Parse(text)
	return err
}

// Fixed returns the number, if it is the same for all requests.
func (a *Amount) Fixed() (int64, bool) { return a.number, a.text == nil }

// Value is the number for a request.
func (p *Positive) Value(c *plugin.Ctx) (int64, error) { return p.value(c, 1) }

// Value is the number for a request.
func (n *Natural) Value(c *plugin.Ctx) (int64, error) { return n.value(c, 0) }

var errNotNumber = errors.New("resolved value is not a number")

func (a *Amount) value(c *plugin.Ctx, least int64) (int64, error) {
	if a.text == nil {
		return a.number, nil
	}
	text := strings.TrimSpace(a.text.Value(c))
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		if n, err = fromFloat(text); err != nil {
			return 0, err
		}
	}
	switch {
	case n < least:
		return 0, fmt.Errorf("resolved value must be at least %d, got: %d", least, n)
	case n > mostExact:
		return 0, fmt.Errorf("resolved value exceeds safe integer range (2^53-1), got: %d", n)
	}
	return n, nil
}

const mostExact = 1<<53 - 1

// fromFloat reads what Lua takes for a number, too: 2.0, 1e3.
func fromFloat(text string) (int64, error) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsInf(f, 0) || math.IsNaN(f):
		return 0, errNotNumber
	case f != math.Trunc(f):
		return 0, fmt.Errorf("resolved value must be an integer, got: %s", strings.Clone(text))
	case math.Abs(f) > mostExact:
		return 0, fmt.Errorf("resolved value exceeds safe integer range (2^53-1), got: %v", f)
	}
	return int64(f), nil
}
