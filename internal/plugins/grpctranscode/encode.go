package grpctranscode

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"weir/internal/document"
)

// frame is the length of what stands before a message (gRPC over HTTP/2,
// Length-Prefixed-Message): a flag and the message's length.
const frame = 5

// encode is the framed message of type d with what was given.
func encode(d protoreflect.MessageDescriptor, given *document.Value) ([]byte, error) {
	m := dynamicpb.NewMessage(d)
	if err := fill(m, given); err != nil {
		return nil, err
	}
	out, err := proto.MarshalOptions{AllowPartial: true}.MarshalAppend(make([]byte, frame), m)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(out[1:], uint32(len(out)-frame))
	return out, nil
}

// fill sets the fields that v has a member for; others of its members do not
// matter.
func fill(m protoreflect.Message, v *document.Value) error {
	if !v.Is(document.Object) {
		return fmt.Errorf("%s: an object is expected, got %s", m.Descriptor().Name(), v.Kind)
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		given := v.Get(string(fd.Name()))
		if given == nil || given.Is(document.Null) {
			continue
		}
		if err := set(m, fd, given); err != nil {
			return fmt.Errorf("field %s: %w", fd.Name(), err)
		}
	}
	return nil
}

func set(m protoreflect.Message, fd protoreflect.FieldDescriptor, given *document.Value) error {
	switch {
	case fd.IsMap():
		return setMap(m.Mutable(fd).Map(), fd, given)
	case fd.IsList():
		return setList(m.Mutable(fd).List(), fd, given)
	case fd.Message() != nil:
		return fill(m.Mutable(fd).Message(), given)
	}
	if fd.Kind() == protoreflect.Int32Kind && given.Is(document.String) {
		if _, isNumber := number(given.Text); !isNumber {
			return nil // as if it were not given, as in APISIX
		}
	}
	value, err := scalar(fd, given)
	if err == nil {
		m.Set(fd, value)
	}
	return err
}

func setList(list protoreflect.List, fd protoreflect.FieldDescriptor, given *document.Value) error {
	if !given.Is(document.Array) {
		return fmt.Errorf("an array is expected, got %s", given.Kind)
	}
	for _, item := range given.Items {
		if fd.Message() != nil {
			if err := fill(list.AppendMutable().Message(), item); err != nil {
				return err
			}
			continue
		}
		value, err := scalar(fd, item)
		if err != nil {
			return err
		}
		list.Append(value)
	}
	return nil
}

func setMap(m protoreflect.Map, fd protoreflect.FieldDescriptor, given *document.Value) error {
	if !given.Is(document.Object) {
		return fmt.Errorf("an object is expected, got %s", given.Kind)
	}
	for _, member := range given.Members {
		key, err := scalar(fd.MapKey(), document.NewString(member.Name))
		if err != nil {
			return err
		}
		if fd.MapValue().Message() != nil {
			err = fill(m.Mutable(key.MapKey()).Message(), member.Value)
		} else {
			var value protoreflect.Value
			if value, err = scalar(fd.MapValue(), member.Value); err == nil {
				m.Set(key.MapKey(), value)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scalar is v for a field that is no message. What APISIX's codec takes is taken:
// numbers as texts, anything but false as true.
func scalar(fd protoreflect.FieldDescriptor, v *document.Value) (none protoreflect.Value, err error) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(!v.Is(document.Bool) || v.Text == "true"), nil
	case protoreflect.StringKind:
		if v.Is(document.String) {
			return protoreflect.ValueOfString(v.Text), nil
		}
	case protoreflect.BytesKind:
		if v.Is(document.String) {
			return protoreflect.ValueOfBytes([]byte(v.Text)), nil
		}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if f, ok := number(v.Text); ok && (v.Is(document.Number) || v.Is(document.String)) {
			if fd.Kind() == protoreflect.FloatKind {
				return protoreflect.ValueOfFloat32(float32(f)), nil
			}
			return protoreflect.ValueOfFloat64(f), nil
		}
	case protoreflect.EnumKind:
		if v.Is(document.String) {
			if named := fd.Enum().Values().ByName(protoreflect.Name(v.Text)); named != nil {
				return protoreflect.ValueOfEnum(named.Number()), nil
			}
			return none, fmt.Errorf("unknown enum %q", v.Text)
		}
		if n, ok := integer(v); ok {
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(int32(n))), nil
		}
	default:
		if n, ok := integer(v); ok {
			return sized(fd.Kind(), n), nil
		}
	}
	return none, fmt.Errorf("%s is expected, got %s", fd.Kind(), v.Kind)
}

// sized is n as the kind of an integer, cut off as APISIX's codec does.
func sized(k protoreflect.Kind, n int64) protoreflect.Value {
	switch k {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	}
	return protoreflect.ValueOfInt64(n)
}

// integer reads a number, or a text that is one: decimal or 0x, with a sign, and
// with the "#" that marks large ones.
func integer(v *document.Value) (int64, bool) {
	switch {
	case v.Is(document.Number):
		if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
			return n, true
		}
		f, ok := number(v.Text)
		return int64(f), ok && math.Abs(f) < 1<<63
	case !v.Is(document.String):
		return 0, false
	}
	text, negative := v.Text, false
	for text != "" && (text[0] == '#' || text[0] == '-') {
		negative = negative != (text[0] == '-')
		text = text[1:]
	}
	base := 10
	if digits, hex := strings.CutPrefix(strings.ToLower(text), "0x"); hex {
		text, base = digits, 16
	}
	n, err := strconv.ParseUint(text, base, 64)
	if err != nil {
		f, ok := number(v.Text) // "1e3"
		return int64(f), ok && math.Abs(f) < 1<<63
	}
	if negative {
		return -int64(n), true
	}
	return int64(n), true
}

// number reads a finite number.
func number(text string) (float64, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}
