package portal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"weir/internal/dialect/apicast"
)

func entriesOf(t *testing.T, docs ...string) []*apicast.Entry {
	t.Helper()
	all, err := readConfigs([]byte(configs(docs...)))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What did not change is the entry that was there; the rest is read.
func TestList(t *testing.T) {
	a, b, c, d := svc(1, "a", ""), svc(2, "b", `,"x":"\"}]\\"`), svc(3, "c", ""), svc(4, "d", "")
	changed := svc(2, "b", `,"x":"y"`)
	for name, tc := range map[string]struct {
		now  []string
		same string // ids of entries that are those of before
	}{
		"nothing":       {[]string{a, b, c}, "1 2 3"},
		"changed":       {[]string{a, changed, c}, "1 3"},
		"added":         {[]string{a, b, c, d}, "1 2 3"},
		"added first":   {[]string{d, a, b, c}, "1 2 3"},
		"removed":       {[]string{a, c}, "1 3"},
		"removed first": {[]string{b, c}, "2 3"},
		"replaced":      {[]string{a, d, c}, "1 3"},
		"none":          {nil, ""},
	} {
		old := entriesOf(t, a, b, c)
		got, err := readList(strings.NewReader(configs(tc.now...)), old)
		if err != nil || len(got) != len(tc.now) {
			t.Errorf("%s: %d entries, %v", name, len(got), err)
			continue
		}
		var same []string
		for i, e := range got {
			if string(e.Service) != tc.now[i] && !strings.Contains(configs(tc.now[i]), string(e.Service)) {
				t.Errorf("%s: entry %d is %s", name, i, e.Service)
			}
			for _, o := range old {
				if o == e {
					same = append(same, e.ID)
				}
			}
		}
		if got := strings.Join(same, " "); got != tc.same {
			t.Errorf("%s: the same are %q, want %q", name, got, tc.same)
		}
	}
}

// Whatever is unusual is read as if it were the first time.
func TestListUnusual(t *testing.T) {
	one := svc(1, "a", "")
	for _, body := range []string{
		`{"proxy_configs":{}}`, `{}`, `{"other":1}`, `null`, `[]`, ``, `{"proxy_configs":[` + `{"proxy_config":{"content":` + one + `}}`,
		`{"proxy_configs":[{"proxy_config":{"content":` + one + `}}]}x`, `{"proxy_configs":[{"proxy_config":null}]}`,
		`{"proxy_configs":[{"proxy_config":{}}]}`, `{"proxy_configs":[{"proxy_config":{"content":7}}]}`,
		`{"proxy_configs":[{"proxy_config":{"content":{"id":}}}]}`, `{"proxy_configs":[{"proxy_config":{"content":{"id":1},"content":{"id":2}}}]}`, `{"proxy_configs":[{"Proxy_Config":{"content":` + one + `}}]}`,
		`{"proxy_configs":[{"proxy_config":{"\u0063ontent":` + one + `}}]}`,
		` { "x" : [ 1 , "}" ] , "proxy_configs" : [ { "proxy_config" : { "id" : 1 , "content" : ` + one + ` } } ] } `,
		`{"proxy_configs":[{"proxy_config":{"content":` + one + `}},]}`,
	} {
		compare(t, body, entriesOf(t, one))
		compare(t, body, nil)
	}
}

// Control characters in strings are taken, as everywhere.
func TestListControls(t *testing.T) {
	text := configs(svc(1, "a", ",\"x\":\"\n\t\""))
	for _, padding := range []string{"", strings.Repeat(" ", 2<<20)} { // with it, it is not kept as a whole
		all, err := readList(strings.NewReader(padding+text), nil)
		if err != nil || len(all) != 1 || !json.Valid(all[0].Service) {
			t.Errorf("%d bytes of padding: %d, %v", len(padding), len(all), err)
		}
	}
}

// Of an answer that is no list no more is kept than to say so.
func TestListLong(t *testing.T) {
	for name, c := range map[string]struct{ begin, rest, want string }{
		"another":    {`{"x":"`, "y", errNoList.Error()},
		"bad":        {`{"proxy_configs":[{"proxy_config":{"content":{"id":}}}],"x":"`, "y", "proxy_configs[0]: "},
		"too many":   {`{"proxy_configs":[{"proxy_config":{"content":{}}}`, `,{"proxy_config":{"content":{}}}`, apicast.ErrTooMany.Error()},
		"no end":     {`{"proxy_configs":[],"x":"`, "y", errNoList.Error()},
		"no objects": {`{"proxy_configs":[1`, `,1`, errNoList.Error()},
	} {
		body := io.LimitReader(io.MultiReader(strings.NewReader(c.begin), &endless{c.rest, 0}), 16<<20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		all, err := readList(body, nil)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) || all != nil {
			t.Errorf("%s: %d, %v; want %s", name, len(all), err, c.want)
		}
		if n := after.TotalAlloc - before.TotalAlloc; c.want == errNoList.Error() && n > 4<<20 {
			t.Errorf("%s: %d bytes are allocated", name, n)
		}
	}
}

// endless is a text again and again.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		k := copy(p[n:], e.text[e.at:])
		n, e.at = n+k, (e.at+k)%len(e.text)
	}
	return n, nil
}

// compare checks that readList says what readConfigs says.
func compare(t *testing.T, body string, old []*apicast.Entry) {
	t.Helper()
	want, wantErr := readConfigs([]byte(body))
	got, err := readList(strings.NewReader(body), old)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || len(got) != len(want) {
		t.Fatalf("%s: %d entries, %v; want %d, %v", body, len(got), err, len(want), wantErr)
	}
	for i := range got {
		if a, b := *got[i], *want[i]; a.ID != b.ID || string(a.Service) != string(b.Service) || fmt.Sprint(a.Fault) != fmt.Sprint(b.Fault) {
			t.Fatalf("%s: entry %d is %+v, want %+v", body, i, a, b)
		}
	}
}

func FuzzList(f *testing.F) {
	a, b := svc(1, "a", ""), svc(2, "b", `,"x":"\"}]\\"`)
	f.Add(configs(a, b))
	f.Add(`{"proxy_configs":[{"proxy_config":{"content":{"id":7,"proxy":{"hosts":["A"]}}}}],"x":[{}]}`)
	f.Add(` {"proxy_configs": [ ] , "a" : 1.5e3 }`)
	f.Fuzz(func(t *testing.T, body string) {
		// Of a text that is no JSON, what did not change is taken as it was.
		if json.Valid([]byte(body)) {
			compare(t, body, entriesOf(t, a, b))
			compare(t, body, nil)
		}
	})
}

// BenchmarkList: a page of which one service has changed.
func BenchmarkList(b *testing.B) {
	docs := make([]string, perPage)
	for i := range docs {
		docs[i] = svc(i, fmt.Sprint("h", i), `,"pad":"`+strings.Repeat("x", 2500)+`"`)
	}
	old, err := readConfigs([]byte(configs(docs...)))
	if err != nil {
		b.Fatal(err)
	}
	for i := range docs {
		docs[i] = svc(i, fmt.Sprint("h", i), `,"pad":"`+strings.Repeat("x", 2500)+`"`)
	}
	docs[7] = svc(7, "h7", "")
	body := []byte(configs(docs...))
	b.Run("changed", func(b *testing.B) {
		for b.Loop() {
			if _, err := readList(bytes.NewReader(body), old); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			if _, err := readList(bytes.NewReader(body), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
