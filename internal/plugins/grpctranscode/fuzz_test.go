package grpctranscode

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"weir/internal/document"
)

// FuzzDecode: what an upstream sends becomes JSON or an error, and what was JSON
// becomes the same JSON again when it is sent back.
func FuzzDecode(f *testing.F) {
	d := message(f, "shop.Reply")
	for _, s := range []string{
		`{"message":"a","was":{"name":"b","items":[{"pieces":2}],"counts":{"z":1},"raw":"\u0001","size":7,"f":0.1},"sizes":[1,9],"n":"#-9000000000"}`,
		`{"n":-1,"was":{"d":1e300,"c":"0xffffffffffffffff","left":""}}`,
	} {
		v, err := document.Parse([]byte(s))
		if err != nil {
			f.Fatal(err)
		}
		sent, err := encode(d, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(sent[frame:])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, o := range []options{nil, {"enum_as_value", "int64_as_hexstring", "use_default_values"}} {
			if text, err := decode(d, raw, o.form()); err == nil && !json.Valid(text) {
				t.Errorf("%x: %s", raw, text)
			}
		}
		exact := form{absent: noDefaults, large: asText}
		first, err := decode(d, raw, exact)
		if err != nil {
			return
		}
		v, err := document.Parse(first)
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		sent, err := encode(d, v)
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		if second, err := decode(d, sent[frame:], exact); err != nil || string(second) != string(first) {
			t.Errorf("%s, then %s, %v", first, second, err)
		}
	})
}

// FuzzEncode: JSON that protojson takes becomes the same message here.
func FuzzEncode(f *testing.F) {
	d := message(f, "shop.Request")
	for _, s := range []string{
		`{"name":"a","a":-3,"b":"5","c":7,"d":1.5,"yes":true,"size":"LARGE","tags":["x"],"item":{"pieces":1},"items":[{}]}`,
		`{"counts":{"z":1,"":2},"named":{"k":{"name":"n"}},"may":"","left":"","f":-1e-3,"item":null}`, `{"size":9,"other":[1]}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, given string) {
		v, err := document.Parse([]byte(given))
		if err != nil {
			return
		}
		sent, err := encode(d, v)
		want := dynamicpb.NewMessage(d)
		// Names of fields in other spellings, base64 and words for numbers are its own.
		if strings.Contains(given, "raw") || strings.Contains(given, "N") || strings.Contains(given, `\`) ||
			(protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(given), want) != nil {
			return
		}
		if err != nil && strings.Contains(err.Error(), "unknown enum") {
			return // what DiscardUnknown discards, too
		}
		if err != nil {
			t.Fatalf("%s: %v", given, err)
		}
		got := dynamicpb.NewMessage(d)
		if err := proto.Unmarshal(sent[frame:], got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", given, got, err, want)
		}
	})
}
