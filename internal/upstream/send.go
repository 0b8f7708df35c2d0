package upstream

import "weir/internal/wire"

// headSize is the buffer a request's head is written into; a longer head
// allocates.
const headSize = 16 << 10

// send sends the request, or its head and the beginning of its body.
func (c *Call) send(n *node) error {
	b := wire.GetBuffer(headSize)
	defer b.Free()
	head := c.appendHead(b.B[:0], n)
	if c.Body == nil {
		now := c.began
		if !c.reused {
			now = c.up.now() // dialling took its time
		}
		return c.conn.writeHead(head, now)
	}
	return c.upload.begin(c.conn, head)
}

func (c *Call) appendHead(dst []byte, n *node) []byte {
	target := c.Target
	if target == "" {
		target = c.Request.Target
	}
	dst = wire.AppendRequestLine(dst, c.method(), target)
	dst = append(append(append(dst, "Host: "...), c.authority(n)...), "\r\n"...)
	h := &c.Request.Header
	dropOwn(h)
	dst = append(h.AppendTo(dst), c.Extra...)
	switch {
	case c.Body != nil:
		dst = wire.AppendFraming(dst, c.Length)
	case anticipated(c.method()):
		dst = wire.AppendFraming(dst, 0)
	}
	return append(dst, "\r\n"...)
}

// authority is the Host that n gets.
func (c *Call) authority(n *node) string {
	host := c.ForceHost
	if host == "" {
		switch c.up.passHost {
		case hostOfNode, hostOfDomain:
			host = n.hosts[c.isTLS()]
		case hostAsTold:
			host = c.up.host
		default:
			if host = c.Host; host == "" {
				host = c.Request.Host
			}
		}
	}
	if host == "" {
		host = n.hosts[c.isTLS()] // HTTP/1.1 demands one
	}
	return host
}

// isTLS is 1 for schemes https and grpcs, 0 for others.
func (c *Call) isTLS() int {
	if c.scheme == "https" || c.scheme == "grpcs" {
		return 1
	}
	return 0
}

// anticipated reports whether a request of that method states that it has no
// body (RFC 9110 §8.6).
func anticipated(method string) bool {
	return method == "POST" || method == "PUT" || method == "PATCH"
}

// dropOwn drops the fields that belong to a connection, or that this package
// writes itself, wherever they come from: a second Content-Length that a
// configuration set would let requests be smuggled.
func dropOwn(h *wire.Header) {
	fields := h.Fields()
	for i := range fields {
		if f := &fields[i]; !f.Dropped && own(f) {
			f.Dropped = true
		}
	}
}

func own(f *wire.Field) bool {
	switch f.Known.Name() {
	case wire.KnownConnection, wire.KnownContentLength, wire.KnownExpect, wire.KnownHost,
		wire.KnownKeepAlive, wire.KnownProxyConnection, wire.KnownTransferEncoding:
		return true
	case wire.KnownNone: // perhaps because it was added, not parsed
		switch len(f.Name) {
		case len("Host"):
			return wire.EqualFold(f.Name, "Host")
		case len("Expect"):
			return wire.EqualFold(f.Name, "Expect")
		case len("Connection"): // and Keep-Alive
			return wire.EqualFold(f.Name, "Connection") || wire.EqualFold(f.Name, "Keep-Alive")
		case len("Content-Length"):
			return wire.EqualFold(f.Name, "Content-Length")
		case len("Proxy-Connection"):
			return wire.EqualFold(f.Name, "Proxy-Connection")
		case len("Transfer-Encoding"):
			return wire.EqualFold(f.Name, "Transfer-Encoding")
		}
	}
	return false
}
