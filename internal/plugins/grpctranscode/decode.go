package grpctranscode

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"weir/internal/document"
)

// options are pb_option.
type options []string

// JSONSchema implements schema.Describer.
func (options) JSONSchema() []byte {
	return []byte(`{
		"type": "array", "minItems": 1,
		"default": ["enum_as_name", "int64_as_number", "auto_default_values", "disable_hooks"],
		"items": {"type": "string", "anyOf": [
			{"description": "enum as result", "type": "string", "enum": ["enum_as_name", "enum_as_value"]},
			{"description": "int64 as result", "type": "string", "enum": ["int64_as_number", "int64_as_string", "int64_as_hexstring"]},
			{"description": "default values option", "type": "string", "enum": ["auto_default_values", "no_default_values", "use_default_values", "use_default_metatable"]},
			{"description": "hooks option", "type": "string", "enum": ["enable_hooks", "disable_hooks"]}]}}`)
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *options) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, (*[]string)(o)) }

// A form is what JSON is made of messages. The zero form is the default.
type form struct {
	enumNumbers bool
	large       largeForm
	absent      absentForm
}

type largeForm uint8

// The forms of integers that need not fit into 32 bits.
const (
	asNumber largeForm = iota
	asText
	asHex
)

type absentForm uint8

// What becomes of fields without a value.
const (
	proto3Defaults absentForm = iota // those of proto3 have their default
	allDefaults
	noDefaults
)

func (o options) form() (f form) {
	for _, option := range o {
		switch option {
		case "enum_as_name":
			f.enumNumbers = false
		case "enum_as_value":
			f.enumNumbers = true
		case "int64_as_number":
			f.large = asNumber
		case "int64_as_string":
			f.large = asText
		case "int64_as_hexstring":
			f.large = asHex
		case "auto_default_values":
			f.absent = proto3Defaults
		case "use_default_values":
			f.absent = allDefaults
		case "no_default_values", "use_default_metatable":
			f.absent = noDefaults
		}
	}
	return f
}

var errNotFinite = errors.New("a number is not finite")

// decode is a message of type d as JSON.
func decode(d protoreflect.MessageDescriptor, message []byte, f form) ([]byte, error) {
	m := dynamicpb.NewMessage(d)
	if err := (proto.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true}).Unmarshal(message, m); err != nil {
		return nil, err
	}
	w := writer{form: f}
	w.message(m)
	return w.dst, w.err
}

// A writer appends values as JSON. err is what one of them could not be.
type writer struct {
	form
	dst []byte
	err error
}

func (w *writer) message(m protoreflect.Message) {
	w.dst = append(w.dst, '{')
	fields := m.Descriptor().Fields()
	proto3 := m.Descriptor().ParentFile().Syntax() == protoreflect.Proto3
	more := false
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) && !w.shows(fd, proto3) {
			continue
		}
		if more {
			w.dst = append(w.dst, ',')
		}
		more = true
		w.dst = append(document.AppendText(w.dst, string(fd.Name())), ':')
		w.field(fd, m.Get(fd))
	}
	w.dst = append(w.dst, '}')
}

// shows says that a field without a value is there with its default.
func (w *writer) shows(fd protoreflect.FieldDescriptor, proto3 bool) bool {
	if fd.ContainingOneof() != nil || fd.Message() != nil && !fd.IsMap() && !fd.IsList() {
		return false
	}
	return w.absent == allDefaults || w.absent == proto3Defaults && proto3
}

func (w *writer) field(fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch {
	case fd.IsList():
		w.dst = append(w.dst, '[')
		for i := range v.List().Len() {
			if i > 0 {
				w.dst = append(w.dst, ',')
			}
			w.value(fd, v.List().Get(i))
		}
		w.dst = append(w.dst, ']')
	case fd.IsMap():
		w.entries(fd, v.Map())
	default:
		w.value(fd, v)
	}
}

// entries appends a map, in the order of its keys.
func (w *writer) entries(fd protoreflect.FieldDescriptor, m protoreflect.Map) {
	keys := make([]protoreflect.MapKey, 0, m.Len())
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return strings.Compare(a.String(), b.String()) })
	w.dst = append(w.dst, '{')
	for i, k := range keys {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		w.dst = append(document.AppendText(w.dst, k.String()), ':')
		w.value(fd.MapValue(), m.Get(k))
	}
	w.dst = append(w.dst, '}')
}

func (w *writer) value(fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		w.dst = strconv.AppendBool(w.dst, v.Bool())
	case protoreflect.StringKind:
		w.dst = document.AppendText(w.dst, v.String())
	case protoreflect.BytesKind:
		w.dst = document.AppendText(w.dst, string(v.Bytes()))
	case protoreflect.EnumKind:
		if named := fd.Enum().Values().ByNumber(v.Enum()); named != nil && !w.enumNumbers {
			w.dst = document.AppendText(w.dst, string(named.Name()))
			return
		}
		w.dst = strconv.AppendInt(w.dst, int64(v.Enum()), 10)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		w.float(v.Float())
	case protoreflect.MessageKind, protoreflect.GroupKind:
		w.message(v.Message())
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		w.integer(v.Uint(), false)
	default:
		n := v.Int()
		w.integer(uint64(max(n, -n)), n < 0)
	}
}

// integer appends a magnitude with its sign. As APISIX's codec has it, one that
// fits into 32 bits is a number in any form, and large numbers have 14 digits.
func (w *writer) integer(n uint64, negative bool) {
	sign := ""
	if negative {
		sign = "-"
	}
	switch fits := n <= math.MaxUint32 && !negative || n <= -math.MinInt32; {
	case fits:
		w.dst = strconv.AppendUint(append(w.dst, sign...), n, 10)
	case w.large == asNumber:
		w.dst = append(w.dst, sign...)
		w.float(float64(n))
	case w.large == asText:
		w.dst = append(w.dst, `"#`+sign...)
		w.dst = append(strconv.AppendUint(w.dst, n, 10), '"')
	default:
		w.dst = append(w.dst, `"#`+sign+`0x`...)
		w.dst = append(w.dst, strings.ToUpper(strconv.FormatUint(n, 16))...)
		w.dst = append(w.dst, '"')
	}
}

// float appends a number with 14 digits, as cjson does.
func (w *writer) float(f float64) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		w.err = errNotFinite
		return
	}
	w.dst = strconv.AppendFloat(w.dst, f, 'g', 14, 64)
}
