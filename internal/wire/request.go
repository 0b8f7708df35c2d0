package wire

import (
	"bytes"
	"net/netip"
	"strings"
)

// ReadRequest reads the head of the next request into req (RFC 9112 §3). It
// blocks until the whole head is there.
//
// It fails with io.EOF if the stream ends before the request's first byte, and
// with io.ErrUnexpectedEOF if it ends within the head. ErrMalformed,
// ErrHeadTooLarge, ErrStartLine, ErrFieldLine and ErrVersion make the connection useless; req then holds
// what was understood before. After ErrExpectation req is complete and the
// body may be read or not.
func (r *Reader) ReadRequest(req *Request) error {
	req.Reset()
	head, err := r.readHead(true)
	if err != nil {
		return err
	}
	f := facts{}
	if err := r.parseRequest(req, head, &f); err != nil {
		return r.fail(err)
	}
	r.head = &req.Header
	r.begin(req.Length)
	if f.expect && req.Proto == HTTP11 && req.Length != 0 {
		req.Expect = !f.expectOther
		if f.expectOther {
			return ErrExpectation
		}
	}
	return nil
}

func (r *Reader) parseRequest(req *Request, head []byte, f *facts) error {
	eol := bytes.IndexByte(head, '\n')
	if err := requestLine(req, head[:eol-1]); err != nil {
		return err
	}
	if err := parseFields(&req.Header, head, eol+1); err != nil {
		return err
	}
	if err := f.gather(&req.Header, r.limits.Tokens); err != nil {
		return err
	}
	if f.chunked && req.Proto == HTTP10 {
		return ErrMalformed
	}
	if f.hosts > 1 || f.hosts == 0 && req.Proto == HTTP11 || f.hosts == 1 && !validHost(f.host) {
		return ErrMalformed
	}
	req.Host = f.host
	if req.Target[0] != '/' || req.Method == "CONNECT" {
		start := len(req.Method) + 1
		if !otherForm(req, head[start:start+len(req.Target)]) {
			return ErrMalformed
		}
	}
	req.Length = max(f.length, 0)
	if f.chunked {
		req.Length = Chunked
	}
	req.Close = f.close || req.Proto == HTTP10 && !f.keepAlive
	req.Upgrade = f.upgrading && f.upgrade && req.Proto == HTTP11
	req.Trailers = f.trailers
	return nil
}

// requestLine parses method SP request-target SP HTTP-version.
func requestLine(req *Request, line []byte) error {
	i := 0
	for i < len(line) && tokenByte[line[i]] {
		i++
	}
	if i == 0 || i == len(line) || line[i] != ' ' {
		return ErrMalformed
	}
	t := i + 1
	e := t
	for e < len(line) && targetByte[line[e]] {
		e++
	}
	if e == t || e == len(line) || line[e] != ' ' {
		return ErrMalformed
	}
	var err error
	if req.Proto, err = version(line[e+1:]); err != nil {
		return err
	}
	req.Method, req.Target = view(line[:i]), view(line[t:e])
	return nil
}

func version(b []byte) (Proto, error) {
	switch string(b) {
	case "HTTP/1.1":
		return HTTP11, nil
	case "HTTP/1.0":
		return HTTP10, nil
	}
	if len(b) == 8 && string(b[:5]) == "HTTP/" && b[6] == '.' && isDigit(b[5]) && isDigit(b[7]) {
		return HTTP11, ErrVersion
	}
	return HTTP11, ErrMalformed
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// otherForm understands a target that is not in origin form (RFC 9112 §3.2);
// target is where req.Target is stored.
func otherForm(req *Request, target []byte) bool {
	switch {
	case req.Method == "CONNECT":
		req.Host = req.Target
		return validHost(req.Host) && hasPort(req.Host)
	case req.Target == "*":
		return req.Method == "OPTIONS"
	}
	scheme, _, ok := strings.Cut(req.Target, "://")
	if !ok || !EqualFold(scheme, "http") && !EqualFold(scheme, "https") {
		return false
	}
	authority := target[len(scheme)+3:]
	path := bytes.IndexAny(authority, "/?")
	if path < 0 {
		path = len(authority)
	}
	authority, rest := authority[:path], authority[path:]
	if !validHost(view(authority)) {
		return false
	}
	switch {
	case len(rest) > 0 && rest[0] == '/':
		req.Target = view(rest)
	case len(rest) == 0 && req.Method == "OPTIONS":
		req.Target = "*"
	case len(rest) == 0:
		req.Target = "/"
	default:
		// The slash before a query gets the authority's last byte, which moves
		// over the slash in front of it.
		at := len(scheme) + 3
		copy(target[at-1:], authority)
		authority = target[at-1 : at-1+path]
		target[at-1+path] = '/'
		req.Target = view(target[at-1+path:])
	}
	req.Host = view(authority)
	return true
}

// validHost reports whether s is host [ ":" port ] (RFC 3986 §3.2.2), not empty.
func validHost(s string) bool {
	end := len(s)
	if s != "" && s[0] == '[' {
		if end = strings.IndexByte(s, ']') + 1; end == 0 || !validIPv6(s[1:end-1]) {
			return false
		}
	} else {
		for i := range len(s) {
			if hostByte[s[i]] {
				continue
			}
			if s[i] != ':' {
				return false
			}
			end = i
			break
		}
	}
	if end == 0 {
		return false
	}
	return end == len(s) || s[end] == ':' && validPort(s[end+1:])
}

func validIPv6(s string) bool {
	for i := range len(s) {
		if s[i] != ':' && s[i] != '.' && hexValue(s[i]) == 0xff {
			return false
		}
	}
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is6()
}

func validPort(s string) bool {
	if s == "" {
		return true
	}
	n, ok := parseLength(s)
	return ok && len(s) <= 5 && n <= 65535
}

func hasPort(host string) bool {
	i := strings.LastIndexByte(host, ':')
	return i > 0 && i+1 < len(host) && host[len(host)-1] != ']'
}
