package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A decoder is a type with a notation of its own.
type decoder interface {
	decode(n *node, path string) error
}

// decode fills v, a pointer, from n. The tag of a field is the key; "inline"
// means that the field's own fields stand in the same table.
func decode(n *node, v reflect.Value, path string) error {
	if d, ok := v.Interface().(decoder); ok {
		return d.decode(n, path)
	}
	e := v.Elem()
	switch e.Interface().(type) {
	case time.Duration:
		return decodeDuration(n, e, path)
	case json.RawMessage:
		b, err := json.Marshal(n.plain())
		e.SetBytes(b)
		return err
	}
	switch e.Kind() {
	case reflect.Pointer:
		e.Set(reflect.New(e.Type().Elem()))
		return decode(n, e, path)
	case reflect.Struct:
		return decodeStruct(n, e, path)
	case reflect.Slice:
		return decodeSlice(n, e, path)
	case reflect.Map:
		return decodeMap(n, e, path)
	}
	return decodeScalar(n, e, path)
}

func decodeScalar(n *node, e reflect.Value, path string) error {
	switch e.Kind() {
	case reflect.Bool:
		b, ok := boolean(n)
		if !ok {
			return mismatch("", path, "boolean", n)
		}
		e.SetBool(b)
	case reflect.Int, reflect.Int64:
		if n.kind != number && !n.hidden {
			return mismatch("", path, "number", n)
		}
		i, err := strconv.ParseInt(n.text, 0, 64)
		if err != nil {
			return invalid(path, n, "is not a whole number")
		}
		e.SetInt(i)
	case reflect.String:
		if n.kind != text && n.kind != number && !n.hidden {
			return mismatch("", path, "string", n)
		}
		e.SetString(n.text)
	default:
		return fmt.Errorf("path[%s]: no decoder for %s", path, e.Type())
	}
	return nil
}

// boolean reads true and false, and the on and off of nginx.
func boolean(n *node) (value, ok bool) {
	switch strings.ToLower(n.text) {
	case "true", "on":
		return true, n.kind == truth || n.kind == text
	case "false", "off":
		return false, n.kind == truth || n.kind == text
	}
	return false, false
}

func decodeStruct(n *node, e reflect.Value, path string) error {
	if n.kind != table {
		return mismatch("", path, "table", n)
	}
	for i := range e.NumField() {
		key := e.Type().Field(i).Tag.Get("conf")
		switch key {
		case "":
			continue
		case "inline":
			if err := decodeStruct(n, e.Field(i), path); err != nil {
				return err
			}
			continue
		}
		if c := n.get(key); c != nil && c.kind != null {
			if err := decode(c, e.Field(i).Addr(), join(path, key)); err != nil {
				return err
			}
		}
	}
	return nil
}

func decodeSlice(n *node, e reflect.Value, path string) error {
	if n.kind != list {
		return mismatch("", path, "table", n)
	}
	s := reflect.MakeSlice(e.Type(), len(n.nodes), len(n.nodes))
	for i, c := range n.nodes {
		if err := decode(c, s.Index(i).Addr(), join(path, strconv.Itoa(i+1))); err != nil {
			return err
		}
	}
	e.Set(s)
	return nil
}

func decodeMap(n *node, e reflect.Value, path string) error {
	if n.kind != table {
		return mismatch("", path, "table", n)
	}
	m := reflect.MakeMapWithSize(e.Type(), len(n.keys))
	for i, key := range n.keys {
		v := reflect.New(e.Type().Elem())
		if err := decode(n.nodes[i], v, join(path, key)); err != nil {
			return err
		}
		m.SetMapIndex(reflect.ValueOf(key), v.Elem())
	}
	e.Set(m)
	return nil
}

// decodeDuration reads a number of seconds or nginx's time notation.
func decodeDuration(n *node, e reflect.Value, path string) error {
	if n.kind != number && n.kind != text {
		return mismatch("", path, "string", n)
	}
	d, ok := parseDuration(n.text)
	if !ok {
		return invalid(path, n, `is not a time such as "60s", "500ms" or "1h 30m"`)
	}
	e.SetInt(int64(d))
	return nil
}

// units of nginx's time notation, largest first as they must be written.
var units = []struct {
	suffix string
	length time.Duration
}{
	{"y", 365 * 24 * time.Hour}, {"M", 30 * 24 * time.Hour}, {"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour},
	{"h", time.Hour}, {"ms", time.Millisecond}, {"m", time.Minute}, {"s", time.Second},
}

func parseDuration(s string) (time.Duration, bool) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return time.Duration(f * float64(time.Second)), f >= 0 && f <= 1e9
	}
	var total time.Duration
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimLeft(s, " ") {
		digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
		n, err := strconv.ParseUint(s[:digits], 10, 31)
		if err != nil {
			return 0, false
		}
		s = s[digits:]
		i := slices.IndexFunc(units, func(u struct {
			suffix string
			length time.Duration
		}) bool {
			return strings.HasPrefix(s, u.suffix)
		})
		if i < 0 || n > uint64(time.Duration(1<<62)/units[i].length) {
			return 0, false
		}
		total += time.Duration(n) * units[i].length
		s = s[len(units[i].suffix):]
	}
	return total, total >= 0
}

// invalid reports a value of the right type. Texts from the environment are
// not shown.
func invalid(path string, n *node, why string) error {
	shown := strconv.Quote(n.text)
	if n.hidden {
		shown = "a value from the environment"
	}
	return fmt.Errorf("path[%s]: %s %s%s", path, shown, why, place(n))
}

// plain is n as encoding/json wants it.
func (n *node) plain() any {
	switch n.kind {
	case truth:
		return strings.EqualFold(n.text, "true")
	case number:
		if json.Valid([]byte(n.text)) {
			return json.Number(n.text)
		}
		if i, err := strconv.ParseInt(n.text, 0, 64); err == nil {
			return i
		}
		return n.text
	case text:
		return n.text
	case list:
		values := make([]any, len(n.nodes))
		for i, c := range n.nodes {
			values[i] = c.plain()
		}
		return values
	case table:
		values := make(map[string]any, len(n.keys))
		for i, k := range n.keys {
			values[k] = n.nodes[i].plain()
		}
		return values
	}
	return nil
}
