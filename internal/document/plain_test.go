package document

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

func TestPlainMembers(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // empty: not plain
	}{
		{`{}`, `map[]`},
		{` { } `, `map[]`},
		{`{"a":1}`, `map[a:1]`},
		{` {"a" : -10 , "b":"x y" , "c":[ 1,{"d":null} ],"":{}} `, `map[:{} a:-10 b:"x y" c:[ 1,{"d":null} ]]`},
		{`{"a":true,"b":false,"c":null,"d":0,"e":[]}`, `map[a:true b:false c:null d:0 e:[]]`},
		{`{"a":{"b":"c"}}`, `map[a:{"b":"c"}]`},

		{``, ``}, {`{`, ``}, {`{"`, ``}, {`{"a"`, ``}, {`{"a":`, ``}, {`{"a":1`, ``}, {`{"a":1,`, ``}, {`{"a":1,}`, ``}, {`{"a":1}}`, ``},
		{`{"a":1}x`, ``}, {`[]`, ``}, {`"a"`, ``}, {`null`, ``}, {`{a:1}`, ``}, {`{"a" 1}`, ``}, {`{"a":1 "b":2}`, ``}, {`{,}`, ``},
		{`{"a":"\n"}`, ``}, {"{\"a\":\"\n\"}", ``}, {`{"a":"é"}`, ``}, {`{"a":"x}`, ``}, {`{"é":1}`, ``},
		{`{"a":01}`, ``}, {`{"a":-}`, ``}, {`{"a":1.5}`, ``}, {`{"a":1e3}`, ``}, {`{"a":+1}`, ``}, {`{"a":tru}`, ``}, {`{"a":truex}`, ``},
		{`{"a":[1,]}`, ``}, {`{"a":[}`, ``}, {`{"a":[1 2]}`, ``}, {`{"a":{]}`, ``}, {"{\"a\":1}\x00", ``},
	} {
		got, ok := plainMembers([]byte(c.text))
		if s := fmt.Sprintf("%s", got); ok != (c.want != "") || ok && s != c.want {
			t.Errorf("%s: %s, %v, want %s", c.text, s, ok, c.want)
		}
	}
}

func plainMembers(text []byte) (map[string]json.RawMessage, bool) {
	got := map[string]json.RawMessage{}
	ok := PlainMembers(text, func(name, value []byte) bool {
		got[string(name)] = value
		return true
	})
	return got, ok
}

func TestPlainMembersStops(t *testing.T) {
	n := 0
	if PlainMembers([]byte(`{"a":1,"b":2}`), func(_, _ []byte) bool { n++; return false }) || n != 1 {
		t.Error("goes on after", n)
	}
}

// FuzzPlainMembers: what is plain is what a parser reads, too.
func FuzzPlainMembers(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":{"c":[true,null,"x"]},"d":-0}`, `{"a":"\u0041"}`, `{"a":0.5}`, `{"a":[[[]]]} `, `{"a":1,"a":2}`, "{}\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := plainMembers(text)
		if !ok {
			return
		}
		want := map[string]json.RawMessage{}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %s, want %s", text, got, want)
		}
		for name, value := range got {
			s, isText := PlainText(value)
			var read string
			if err := json.Unmarshal(value, &read); isText && (err != nil || s != read) {
				t.Errorf("%s: %q, want %q, %v", name, s, read, err)
			}
		}
	})
}

func TestPlainMembersAllocatesNothing(t *testing.T) {
	text := []byte(`{"username":"a","plugins":{"key-auth":{"key":"k"}},"create_time":1700000000}`)
	if n := testing.AllocsPerRun(100, func() {
		PlainMembers(text, func(_, value []byte) bool { return len(value) > 0 })
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPlainMembers(b *testing.B) {
	text := []byte(`{"username":"consumer12345","plugins":{"key-auth":{"key":"VzvuEGJPOnbNDGwxjVbMFxJHGJ5XsBpMcgJcSPK3Yvs="}},"create_time":1700000000,"update_time":1700000000}`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		PlainMembers(text, func(_, value []byte) bool { return len(value) > 0 })
	}
}
