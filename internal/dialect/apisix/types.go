package apisix

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"weir/internal/model"
)

// id is an object's id: a string, or an integer that stands for its digits.
type id string

func (i *id) UnmarshalJSON(raw []byte) error {
	switch {
	case string(raw) == "null":
		return nil
	case raw[0] == '"':
		return json.Unmarshal(raw, (*string)(i))
	}
	var n integer
	if err := n.UnmarshalJSON(raw); err != nil {
		return err
	}
	*i = id(strconv.Itoa(int(n)))
	return nil
}

// integer is a JSON number without a fraction, however it is written: APISIX
// stores what Lua prints, and 1e3 or 8080.0 are integers to its schemas.
type integer int

func (n *integer) UnmarshalJSON(raw []byte) error {
	if i, err := strconv.Atoi(string(raw)); err == nil {
		*n = integer(i)
		return nil
	}
	if string(raw) == "null" {
		return nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return fmt.Errorf("wrong type: expected integer, got %s", kindOf(raw))
	}
	*n = integer(f)
	return nil
}

// Lua has one type for arrays and objects: an empty array is an empty object to
// APISIX, and clients in such languages do write [].
type (
	labels  map[string]string
	plugins model.Plugins
)

func (l *labels) UnmarshalJSON(raw []byte) error {
	if isEmptyArray(raw) {
		return nil
	}
	return json.Unmarshal(raw, (*map[string]string)(l))
}

func (p *plugins) UnmarshalJSON(raw []byte) error {
	if isEmptyArray(raw) {
		return nil
	}
	if string(raw) == "null" {
		return errors.New("wrong type: expected object, got null")
	}
	return json.Unmarshal(raw, (*model.Plugins)(p))
}

func isEmptyArray(raw []byte) bool {
	return raw[0] == '[' && len(bytes.Trim(raw[1:len(raw)-1], " \t\r\n")) == 0
}

// unmarshal decodes an object and tells what is wrong in APISIX's words.
func unmarshal(raw []byte, into any) error {
	err := json.Unmarshal(raw, into)
	var wrong *json.UnmarshalTypeError
	isType := errors.As(err, &wrong)
	switch {
	case isType && wrong.Field != "":
		return fmt.Errorf("property %q validation failed: wrong type: got %s", wrong.Field, wrong.Value)
	case isType, err == nil && bytes.TrimLeft(raw, " \t\r\n")[0] != '{':
		return fmt.Errorf("wrong type: expected object, got %s", kindOf(bytes.TrimLeft(raw, " \t\r\n")))
	}
	return err
}

// kindOf names the JSON type of a value as APISIX's messages do.
func kindOf(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}
