package threescale

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Number is a JSON number in a policy's configuration, perhaps written as text,
// which Lua takes for one, too. null is 0.
type Number float64

// JSONSchema implements schema.Describer.
func (Number) JSONSchema() []byte { return []byte(`{"type":["number","string","null"]}`) }

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	text := strings.TrimSpace(string(bytes.Trim(b, `"`)))
	if text == "null" {
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return fmt.Errorf("a number is expected, not %.40s", b)
	}
	*n = Number(f)
	return nil
}

// A Whole is a Number without a fraction.
type Whole int64

// JSONSchema implements schema.Describer.
func (Whole) JSONSchema() []byte { return Number(0).JSONSchema() }

// UnmarshalJSON implements json.Unmarshaler.
func (n *Whole) UnmarshalJSON(b []byte) error {
	var f Number
	if err := f.UnmarshalJSON(b); err != nil {
		return err
	}
	if f != Number(math.Trunc(float64(f))) || math.Abs(float64(f)) > 1<<53 {
		return fmt.Errorf("a whole number is expected, not %.40s", b)
	}
	*n = Whole(f)
	return nil
}
