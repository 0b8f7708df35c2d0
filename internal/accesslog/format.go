package accesslog

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/expr"
	"weir/internal/plugin"
)

// DefaultFormat is APISIX's default access_log_format.
const DefaultFormat = `$remote_addr - $remote_user [$time_local] $http_host "$request" $status ` +
	`$body_bytes_sent $request_time "$http_referer" "$http_user_agent" $upstream_addr $upstream_status ` +
	`$upstream_response_time "$upstream_scheme://$upstream_host$upstream_uri" "$apisix_request_id"`

// A format is a compiled log format: texts and variables in turn.
type format struct {
	parts  []part
	json   bool
	absent string
}

type part struct {
	literal string // before the variable
	v       expr.Var
}

// compile reads nginx's log_format syntax: $name and ${name}. more are names that
// are set where they are known.
func compile(text string, json bool, more ...string) (*format, error) {
	f := &format{json: json, absent: "-"}
	if json {
		f.absent = ""
	}
	for {
		literal, rest, found := strings.Cut(text, "$")
		if !found {
			f.parts = append(f.parts, part{literal: literal + "\n"})
			return f, nil
		}
		name, after, err := cutName(rest)
		if err != nil {
			return nil, err
		}
		if name == "request_uri" {
			name = "real_request_uri" // nginx logs the raw target under this name
		}
		look := expr.Lookup
		if slices.Contains(more, name) {
			look = setVariable
		}
		v, err := look(name)
		if err != nil {
			return nil, err
		}
		f.parts = append(f.parts, part{literal: literal, v: v})
		text = after
	}
}

// setVariable is the variable that a session has been given, whether or not a
// request has one of that name.
func setVariable(name string) (expr.Var, error) { return expr.Set(name), nil }

func cutName(s string) (name, rest string, err error) {
	if inner, ok := strings.CutPrefix(s, "{"); ok {
		name, rest, ok = strings.Cut(inner, "}")
		if !ok {
			return "", "", fmt.Errorf("the closing bracket in %q is missing", "$"+s)
		}
	} else {
		n := strings.IndexFunc(s, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		})
		if n < 0 {
			n = len(s)
		}
		name, rest = s[:n], s[n:]
	}
	if name == "" {
		return "", "", fmt.Errorf("invalid variable name at %q", "$"+s)
	}
	return name, rest, nil
}

// appendTo appends one line.
func (f *format) appendTo(dst []byte, c *plugin.Ctx) []byte {
	for i := range f.parts {
		p := &f.parts[i]
		dst = append(dst, p.literal...)
		if i == len(f.parts)-1 {
			break
		}
		from := len(dst)
		var ok bool
		if dst, ok = p.v.Append(dst, c); !ok {
			dst = append(dst, f.absent...)
			continue
		}
		dst = f.escape(dst, from)
	}
	return dst
}

// escape escapes dst[from:] in place, growing dst.
func (f *format) escape(dst []byte, from int) []byte {
	special := defaultSpecial
	if f.json {
		special = jsonSpecial
	}
	for i := from; i < len(dst); i++ {
		if special(dst[i]) {
			return f.escapeRest(dst, i)
		}
	}
	return dst
}

func defaultSpecial(b byte) bool { return b < ' ' || b == '"' || b == '\\' || b >= 0x7f }

// Bytes above 0x7f are looked at again: those of a valid character pass.
func jsonSpecial(b byte) bool { return b < ' ' || b == '"' || b == '\\' || b >= utf8.RuneSelf }

// escapeRest writes the escaped form of dst[at:] behind it and moves it down.
func (f *format) escapeRest(dst []byte, at int) []byte {
	end := len(dst)
	for i := at; i < end; {
		n := 1
		if f.json {
			dst, n = appendJSON(dst, dst[i:end])
		} else {
			dst = appendDefault(dst, dst[i])
		}
		i += n
	}
	n := copy(dst[at:], dst[end:])
	return dst[:at+n]
}

const upperHex = "0123456789ABCDEF"

// appendDefault writes one byte as ngx_http_log_escape does.
func appendDefault(dst []byte, b byte) []byte {
	if !defaultSpecial(b) {
		return append(dst, b)
	}
	return append(dst, '\\', 'x', upperHex[b>>4], upperHex[b&15])
}

// appendJSON writes the first character of s for the inside of a JSON string
// (RFC 8259 §7), and a byte that is not UTF-8 as U+FFFD, so that the line is
// always JSON; n is the character's length in s.
func appendJSON(dst, s []byte) (_ []byte, n int) {
	b := s[0]
	if b >= utf8.RuneSelf {
		r, n := utf8.DecodeRune(s)
		return utf8.AppendRune(dst, r), n
	}
	if short := strings.IndexByte("\"\\\n\r\t\b\f", b); short >= 0 {
		return append(dst, '\\', `"\nrtbf`[short]), 1
	}
	if b < ' ' {
		return append(dst, '\\', 'u', '0', '0', upperHex[b>>4], upperHex[b&15]), 1
	}
	return append(dst, b), 1
}
