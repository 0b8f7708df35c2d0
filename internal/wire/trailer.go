package wire

import "io"

// readTrailer parses the trailer section if all of it is buffered: io.EOF says
// that it was, and that the body is done; nil that more bytes are needed.
func (r *Reader) readTrailer() error {
	if r.r == r.w {
		return nil
	}
	b := r.buf.B[r.r:r.w]
	n, err := r.scan.end(b, r.limits.Trailer, r.limits.Fields)
	if n == 0 {
		return err
	}
	if err := parseFields(&r.trailer, b[:n:n], 0); err != nil {
		r.trailer.Reset()
		return err
	}
	for i := range r.trailer.fields {
		f := &r.trailer.fields[i]
		f.Dropped = f.Known != KnownNone || forbiddenTrailer(f.Name) || !r.announced(f.Name)
	}
	r.r += n
	r.base = r.r // trailers are views of the buffer, as the head is
	r.open, r.scan = false, scan{}
	return io.EOF
}

// announced reports whether a Trailer field of the head lists name.
func (r *Reader) announced(name string) bool {
	for i := range r.head.fields {
		if r.head.fields[i].Known.Name() != KnownTrailer {
			continue
		}
		for list := r.head.fields[i].Value; list != ""; {
			var t string
			if t, list = nextToken(list); EqualFold(t, name) {
				return true
			}
		}
	}
	return false
}

// forbiddenTrailer reports whether a field's place is only in a head: routing,
// request modifiers, authentication, response control and content format
// (RFC 9110 §6.5.1). An underscore counts as a hyphen.
func forbiddenTrailer(name string) bool {
	var folded [32]byte
	if len(name) > len(folded) {
		return false
	}
	for i := range len(name) {
		if folded[i] = lower(name[i]); folded[i] == '_' {
			folded[i] = '-'
		}
	}
	switch string(folded[:len(name)]) {
	case "content-length", "transfer-encoding", "host", "connection", "trailer", "te",
		"keep-alive", "upgrade", "proxy-connection", "http2-settings",
		"cache-control", "expect", "max-forwards", "pragma", "range",
		"if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range",
		"authorization", "proxy-authorization", "authentication-info", "proxy-authentication-info",
		"www-authenticate", "proxy-authenticate", "cookie", "set-cookie",
		"age", "date", "expires", "location", "retry-after", "vary", "warning",
		"content-encoding", "content-type", "content-range", "content-location":
		return true
	}
	return false
}
