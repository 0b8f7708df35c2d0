package accesslog

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzFormat: whatever a client sends, a line is one line, JSON stays JSON, and the
// value can be read out of it again.
func FuzzFormat(f *testing.F) {
	f.Add("$remote_addr ${http_user_agent} $request_time", "a\"\\\n\xff")
	f.Add("$", "é")
	f.Add("${a", "")
	f.Add("$cookie_a$arg_b$time_iso8601$upstream_addr", "\u2028\x00\x7f")
	f.Fuzz(func(t *testing.T, text, agent string) {
		c := request(agent)
		for _, isJSON := range []bool{false, true} {
			if form, err := compile(text, isJSON); err == nil {
				line := form.appendTo(nil, c)
				if n := bytes.Count(line, []byte("\n")); n != strings.Count(text, "\n")+1 {
					t.Errorf("%q: %d lines: %q", text, n, line)
				}
			}
		}
		form, err := compile(`{"agent":"$http_user_agent","more":"$request_uri"}`, true)
		if err != nil {
			t.Fatal(err)
		}
		var read struct{ Agent string }
		line := form.appendTo(nil, c)
		if err := json.Unmarshal(line, &read); err != nil || read.Agent != strings.ToValidUTF8(agent, "\ufffd") && utf8.ValidString(agent) {
			t.Errorf("%q: %q, %v", agent, line, err)
		}
		if form, err = compile(`"$http_user_agent"`, false); err != nil {
			t.Fatal(err)
		}
		if got := unescape(t, string(form.appendTo(nil, c))); got != agent {
			t.Errorf("%q became %q", agent, got)
		}
	})
}

// unescape reads what nginx's escaping has written, in quotes.
func unescape(t *testing.T, line string) string {
	line = strings.TrimSuffix(line, "\n")
	if len(line) < 2 || line[0] != '"' || line[len(line)-1] != '"' {
		t.Fatalf("%q", line)
	}
	var b strings.Builder
	for line = line[1 : len(line)-1]; line != ""; line = line[1:] {
		switch {
		case line[0] == '\\':
			b.WriteByte(byte(strings.IndexByte(upperHex, line[2])<<4 | strings.IndexByte(upperHex, line[3])))
			line = line[3:]
		case line[0] == '"':
			t.Fatalf("a quote inside of %q", line)
		default:
			b.WriteByte(line[0])
		}
	}
	return b.String()
}
