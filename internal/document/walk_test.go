package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// spans are the parts of a text, as deep as two, as a walk finds them.
func spans(w *Walk) (parts []string, whole bool) {
	value := func() bool {
		v, ok := w.Value()
		parts = append(parts, string(v))
		return ok
	}
	ok := w.Object(func(name string) bool {
		parts = append(parts, name+":")
		if name == "list" {
			return w.Array(value)
		}
		if name == "skip" {
			return w.Skip()
		}
		return value()
	})
	return parts, ok && w.Over()
}

func TestWalk(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "", ` { } `: "",
		`{"a":1,"b":"x\"}]\\"}`: `a:|1|b:|"x\"}]\\"`,
		` { "a" : { "b" : [ 1 , "]" ] } , "list" : [ 1 , [ ] , "x" ] } `: `a:|{ "b" : [ 1 , "]" ] }|list:|1|[ ]|"x"`,
		`{"list":[],"skip":"\\","\u0061":null}`:                          `list:|skip:|a:|null`,
	} {
		for how, w := range map[string]*Walk{
			"text": WalkText([]byte(text)), "reader": WalkReader(strings.NewReader(text), nil),
			"bytes": WalkReader(iotest.OneByteReader(strings.NewReader(text)), make([]byte, 0, 1)),
		} {
			if parts, whole := spans(w); !whole || strings.Join(parts, "|") != want {
				t.Errorf("%s as %s: %q, %v; want %q", text, how, parts, whole, want)
			}
		}
	}
	for _, text := range []string{``, `[]`, `{`, `{"a"`, `{"a"}`, `{"a":}`, `{"a":1`, `{"a":"x`, `{"a":1}x`, `{"list":[1,]}`, `{"list":1}`, `{a:1}`, `{"a":"\`} {
		if parts, whole := spans(WalkReader(strings.NewReader(text), nil)); whole {
			t.Errorf("%s: %q", text, parts)
		}
	}
}

// However long a text is, only one value of it is kept.
func TestWalkLong(t *testing.T) {
	one := `{"x":"` + strings.Repeat(`\"`, 300<<10) + `"}`
	long := io.MultiReader(strings.NewReader(`{"skip":"`), strings.NewReader(strings.Repeat(`\\`, 4<<20)),
		strings.NewReader(`","list":[`+strings.Repeat(one+",", 20)+one+`]}`))
	w := WalkReader(long, nil)
	parts, whole := spans(w)
	if !whole || len(parts) != 23 || parts[22] != one {
		t.Errorf("%d parts, %v", len(parts), whole)
	}
	if n := cap(w.Buffer()); n > 4*kept {
		t.Errorf("%d bytes kept", n)
	}
	if _, small := w.Whole(); small {
		t.Error("it is no small text")
	}
}

func TestWalkWhole(t *testing.T) {
	w := WalkReader(iotest.OneByteReader(strings.NewReader(`{"a":x]}`)), nil)
	w.Object(func(string) bool { return false })
	if text, small := w.Whole(); !small || string(text) != `{"a":x]}` {
		t.Errorf("%s, %v", text, small)
	}
	failing := WalkReader(io.MultiReader(strings.NewReader(`{"a":`), iotest.ErrReader(io.ErrUnexpectedEOF)), nil)
	if _, whole := spans(failing); whole || !errors.Is(failing.Err(), io.ErrUnexpectedEOF) {
		t.Error(failing.Err())
	}
	if _, small := failing.Whole(); small {
		t.Error("it did not arrive")
	}
}

func FuzzWalk(f *testing.F) {
	f.Add([]byte(` {"a":[1,{"b":"\\\""}],"list":[{},"]",2.5e-3],"skip":{"x":[]}} `))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, whole := spans(WalkText(text))
		b, wholeB := spans(WalkReader(iotest.OneByteReader(bytes.NewReader(text)), nil))
		if whole != wholeB || strings.Join(a, "\n") != strings.Join(b, "\n") {
			t.Fatalf("%s: %q %v, as it arrives %q %v", text, a, whole, b, wholeB)
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(text, &members) != nil || members == nil {
			return
		}
		if list := bytes.TrimSpace(members["list"]); len(list) > 0 && list[0] != '[' {
			return
		}
		if !whole {
			t.Fatalf("%s: %q", text, a)
		}
	})
}

// Parse and Check agree, and what they take Strict makes JSON.
func FuzzStrict(f *testing.F) {
	for _, s := range []string{"{\"a\":\"\n\\\"\t\"}", `[1,"x",null,true,{"a":{}}]`, "[\"\\\n\"]", "\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := Parse(text)
		if check := Check(text); (err == nil) != (check == nil) || err != nil && err.Error() != check.Error() {
			t.Fatalf("%q: %v, %v", text, err, check)
		}
		strict, strictErr := Strict(text)
		if err == nil && strictErr != nil || strictErr == nil && !json.Valid(strict) {
			t.Fatalf("%q: %q, %v", text, strict, strictErr)
		}
		if err != nil || strictErr != nil {
			return
		}
		if again, err := Parse(strict); err != nil || string(again.Append(nil)) != string(v.Append(nil)) {
			t.Fatalf("%q: %q is another document, %v", text, strict, err)
		}
	})
}
