package wire

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestRequestRefused(t *testing.T) {
	const host = "Host: h\r\n"
	for name, c := range map[string]struct {
		raw  string
		want error
	}{
		"empty":                      {"", io.EOF},
		"only empty lines":           {"\r\n\r\n", io.EOF},
		"too many empty lines":       {strings.Repeat("\r\n", 5) + "GET / HTTP/1.1\r\n" + host + "\r\n", ErrMalformed},
		"empty line by LF":           {"\nGET / HTTP/1.1\r\n" + host + "\r\n", ErrMalformed},
		"cut in the line":            {"GET / HT", io.ErrUnexpectedEOF},
		"cut in the fields":          {"GET / HTTP/1.1\r\nHost", io.ErrUnexpectedEOF},
		"cut before the end":         {"GET / HTTP/1.1\r\n" + host, io.ErrUnexpectedEOF},
		"TLS":                        {"\x16\x03\x01\x02\x00", ErrMalformed},
		"bare LF is not awaited":     {"GET / HTTP/1.1\n", ErrMalformed},
		"no version":                 {"GET /\r\n\r\n", ErrMalformed},
		"no target":                  {"GET HTTP/1.1\r\n" + host + "\r\n", ErrMalformed},
		"lower-case version":         {"GET / http/1.1\r\n" + host + "\r\n", ErrMalformed},
		"HTTP/2 preface":             {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ErrVersion},
		"version with space":         {"GET / HTTP/1.1 \r\n" + host + "\r\n", ErrMalformed},
		"long version":               {"GET / HTTP/1.10\r\n" + host + "\r\n", ErrMalformed},
		"relative target":            {"GET a HTTP/1.1\r\n" + host + "\r\n", ErrMalformed},
		"star for GET":               {"GET * HTTP/1.1\r\n" + host + "\r\n", ErrMalformed},
		"DEL in target":              {"GET /\x7f HTTP/1.1\r\n" + host + "\r\n", ErrMalformed},
		"origin form for CONNECT":    {"CONNECT / HTTP/1.1\r\n" + host + "\r\n", ErrMalformed},
		"CONNECT without port":       {"CONNECT h HTTP/1.1\r\n" + host + "\r\n", ErrMalformed},
		"CONNECT [::1] without port": {"CONNECT [::1] HTTP/1.1\r\n" + host + "\r\n", ErrMalformed},
		"authority form for GET":     {"GET h:80 HTTP/1.1\r\n" + host + "\r\n", ErrMalformed},
		"userinfo":                   {"GET http://u@h/ HTTP/1.1\r\n" + host + "\r\n", ErrMalformed},
		"no authority":               {"GET http:///a HTTP/1.1\r\n" + host + "\r\n", ErrMalformed},
		"other scheme":               {"GET ftp://h/a HTTP/1.1\r\n" + host + "\r\n", ErrMalformed},
		"absolute without Host":      {"GET http://h/ HTTP/1.1\r\n\r\n", ErrMalformed},
		"empty Host":                 {"GET / HTTP/1.1\r\nHost:\r\n\r\n", ErrMalformed},
		"dup Host in 1.0":            {"GET / HTTP/1.0\r\nHost: a\r\nhost: a\r\n\r\n", ErrMalformed},
		"CR at line end":             {"GET / HTTP/1.1\r\n" + host + "A: b\r\r\n\r\n", ErrMalformed},
		"CR in the request line":     {"GET / HTTP/1.1\r\r\n" + host + "\r\n", ErrMalformed},
		"empty field line":           {"GET / HTTP/1.1\r\n" + host + ":\r\n\r\n", ErrMalformed},
		"UTF-8 name":                 {"GET / HTTP/1.1\r\n" + host + "é: 1\r\n\r\n", ErrMalformed},
		"CL with sign and space":     {"GET / HTTP/1.1\r\n" + host + "Content-Length: 1 1\r\n\r\n", ErrMalformed},
		"CL 2^63":                    {"GET / HTTP/1.1\r\n" + host + "Content-Length: 9223372036854775808\r\n\r\n", ErrMalformed},
		"empty TE":                   {"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding:\r\n\r\n", ErrMalformed},
		"TE with parameter":          {"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked;a=b\r\n\r\n", ErrMalformed},
		"Expect twice":               {"PUT / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nExpect: 100-continue\r\nExpect: x\r\n\r\na", ErrExpectation},
		"Expect empty":               {"PUT / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nExpect:\r\n\r\na", ErrExpectation},
		"too many tokens":            {"GET / HTTP/1.1\r\n" + host + "Connection: " + strings.Repeat("a,", 101) + "\r\n\r\n", ErrHeadTooLarge},
	} {
		r := new(Reader)
		r.Reset(strings.NewReader(c.raw), Limits{})
		var req Request
		if err := r.ReadRequest(&req); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestRequestAccepted(t *testing.T) {
	for raw, want := range map[string]string{
		"GET / HTTP/1.0\r\n\r\n":                                                                         "GET /  HTTP/1.0 0 close=true expect=false upgrade=false trailers=false",
		"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n":                                               "GET /  HTTP/1.0 0 close=false expect=false upgrade=false trailers=false",
		"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n":                                        "GET /  HTTP/1.0 0 close=true expect=false upgrade=false trailers=false",
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: x\r\nconnection:CLOSE\r\n\r\n":                         "GET / h HTTP/1.1 0 close=true expect=false upgrade=false trailers=false",
		"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n":                                                          "OPTIONS * h HTTP/1.1 0 close=false expect=false upgrade=false trailers=false",
		"OPTIONS HTTP://a:8 HTTP/1.1\r\nHost: h\r\n\r\n":                                                 "OPTIONS * a:8 HTTP/1.1 0 close=false expect=false upgrade=false trailers=false",
		"GET https://a HTTP/1.1\r\nHost: h\r\n\r\n":                                                      "GET / a HTTP/1.1 0 close=false expect=false upgrade=false trailers=false",
		"GET http://a.b:1?c/d?e HTTP/1.1\r\nHost: h\r\n\r\n":                                             "GET /?c/d?e a.b:1 HTTP/1.1 0 close=false expect=false upgrade=false trailers=false",
		"GET http://[::1]:1/x HTTP/1.1\r\nHost: h\r\n\r\n":                                               "GET /x [::1]:1 HTTP/1.1 0 close=false expect=false upgrade=false trailers=false",
		"CONNECT a:443 HTTP/1.1\r\nHost: b\r\n\r\n":                                                      "CONNECT a:443 a:443 HTTP/1.1 0 close=false expect=false upgrade=false trailers=false",
		"GET //a:b@c/ HTTP/1.1\r\nHost: h:80\r\n\r\n":                                                    "GET //a:b@c/ h:80 HTTP/1.1 0 close=false expect=false upgrade=false trailers=false",
		"PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 0\r\n\r\n":                 "PUT / h HTTP/1.1 0 close=false expect=false upgrade=false trailers=false",
		"PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n.":                "PUT / h HTTP/1.1 1 close=false expect=true upgrade=false trailers=false",
		"PUT / HTTP/1.0\r\nHost: h\r\nExpect: other\r\nContent-Length: 1\r\n\r\n.":                       "PUT / h HTTP/1.0 1 close=true expect=false upgrade=false trailers=false",
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n":                 "GET / h HTTP/1.1 0 close=false expect=false upgrade=true trailers=false",
		"GET / HTTP/1.0\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n":                 "GET / h HTTP/1.0 0 close=true expect=false upgrade=false trailers=false",
		"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n":                                        "GET / h HTTP/1.1 0 close=false expect=false upgrade=false trailers=false",
		"PUT / HTTP/1.1\r\nHost: h\r\nTrailer: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":         "PUT / h HTTP/1.1 -1 close=false expect=false upgrade=false trailers=true",
		"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length:\t 0000000000000000000000000000000000001 \r\n\r\n.": "PUT / h HTTP/1.1 1 close=false expect=false upgrade=false trailers=false",
	} {
		all := requests(strings.NewReader(raw), Limits{}, 10)
		m := all[0]
		got := m.Start + " " + m.Proto.String() + " " + formatInt(m.Length) + " " + m.Flags
		if len(all) != 1 || m.Head != nil || m.Err != nil || got != want {
			t.Errorf("%q:\n got %s %v %v\nwant %s", raw, got, m.Head, m.Err, want)
		}
	}
}

func TestHost(t *testing.T) {
	for _, ok := range []string{"a", "a.b", "a.b.", "A-1_x~y", "a:", "a:0", "a:65535", "127.0.0.1:8080", "[::1]", "[::1]:80", "[::ffff:1.2.3.4]:1", "a!$&'()*+,;=b"} {
		if !validHost(ok) {
			t.Errorf("%q is refused", ok)
		}
	}
	for _, bad := range []string{"", ":", ":80", "a b", "a/b", "a?b", "a#b", "a@b", "a\\b", "a%41", "ü", "a\x7f", "a:b", "a:65536", "a:123456", "a:1:2", "::1", "[::1", "::1]", "[a]", "[]", "[1.2.3.4]", "[::1%25e0]", "[::1]a", "[::1]:x", "[fe80::1%e]"} {
		if validHost(bad) {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// A request line that was refused for its fields is still there for the log.
func TestRefusedRequestLine(t *testing.T) {
	r := new(Reader)
	r.Reset(strings.NewReader("GET /x HTTP/1.1\r\nA B\r\n\r\n"), Limits{})
	var req Request
	if err := r.ReadRequest(&req); err != ErrMalformed || req.Method != "GET" || req.Target != "/x" {
		t.Errorf("%v %+v", err, req)
	}
	if err := r.ReadRequest(&req); err != ErrMalformed {
		t.Errorf("read on: %v", err)
	}
}

func TestHeadLimits(t *testing.T) {
	head := func(n int) string { // a head of n bytes
		const rest = "GET / HTTP/1.1\r\nHost: h\r\nA: \r\n\r\n"
		return "GET / HTTP/1.1\r\nHost: h\r\nA: " + strings.Repeat("a", n-len(rest)) + "\r\n\r\n"
	}
	for _, limit := range []int{100, 4 << 10, 5000, 64 << 10, 100_000} {
		for n, want := range map[int]error{limit: nil, limit + 1: ErrHeadTooLarge} {
			for how, src := range map[string]io.Reader{
				"whole": strings.NewReader(head(n)),
				"parts": &pieces{head(n)[:n/2], head(n)[n/2 : n-1], head(n)[n-1:]},
			} {
				var r Reader
				var req Request
				r.Reset(src, Limits{Head: limit})
				if err := r.ReadRequest(&req); err != want {
					t.Errorf("%d of %d, %s: %v", n, limit, how, err)
				}
			}
		}
	}
	for n, want := range map[int]error{9: nil, 10: ErrHeadTooLarge} {
		raw := "GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("a:b\r\n", n) + "\r\n"
		var r Reader
		var req Request
		r.Reset(strings.NewReader(raw), Limits{Fields: 10})
		if err := r.ReadRequest(&req); err != want {
			t.Errorf("%d fields: %v", n+1, err)
		}
	}
}

// A limit of a line tells what is too large: what is asked for, or a field.
func TestLineLimit(t *testing.T) {
	const limit = 64
	line := func(before string, n int, after string) string {
		return before + strings.Repeat("a", n-len(before)-len(after)) + after
	}
	for name, c := range map[string]struct {
		head string
		want error
	}{
		"all fit":           {line("GET /", limit, " HTTP/1.1\r\n") + line("Host: ", limit, "\r\n") + "\r\n", nil},
		"start line":        {line("GET /", limit+1, " HTTP/1.1\r\n") + "Host: a\r\n\r\n", ErrStartLine},
		"endless start":     {line("GET /", limit+1, ""), ErrStartLine},
		"field":             {"GET / HTTP/1.1\r\n" + line("Host: ", limit+1, "\r\n") + "\r\n", ErrFieldLine},
		"endless field":     {"GET / HTTP/1.1\r\nHost: a\r\n" + line("X: ", limit+1, ""), ErrFieldLine},
		"many within limit": {"GET / HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 40) + "Host: a\r\n\r\n", nil},
	} {
		var r Reader
		r.Reset(strings.NewReader(c.head), Limits{Line: limit})
		var req Request
		if err := r.ReadRequest(&req); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		r.Reset(nil, Limits{})
	}
}
