package expr

import (
	"strconv"
	"strings"

	"weir/internal/plugin"
	"weir/internal/wire"
)

func header(name string) func(*plugin.Ctx) (string, bool) {
	return func(c *plugin.Ctx) (string, bool) { return c.Header(name) }
}

// requestField is http_NAME. What the gateway vouches for is not what the client
// said: a client cannot speak in its name.
func requestField(name string) Var {
	name = canonical(name)
	switch name {
	case "host":
		return Var{text: httpHost}
	case "x_forwarded_for":
		return forwardedFor(field(name, receivedHeader, present), field(name, receivedHeader, ended))
	case "x_forwarded_proto", "x_forwarded_host", "x_forwarded_port", "forwarded":
		return field(name, receivedHeader, present)
	case "x_consumer_username":
		return ofConsumer(name, func(c *plugin.Consumer) string { return c.Name })
	case "x_credential_identifier":
		return ofConsumer(name, func(c *plugin.Consumer) string { return c.CredentialID })
	case "x_consumer_custom_id":
		return ofConsumer(name, func(c *plugin.Consumer) string { return c.CustomID })
	}
	return field(name, receivedHeader, ended)
}

// forwardedFor is the chain that the client is believed. The engine drops it for
// good when it begins to proxy.
func forwardedFor(before, after Var) Var {
	return Var{text: func(c *plugin.Ctx) (string, bool) {
		if len(c.Sent.Tries) > 0 {
			return after.text(c)
		}
		return before.text(c)
	}}
}

// ofConsumer is a header that the gateway sets once a consumer is known.
func ofConsumer(name string, of func(*plugin.Consumer) string) Var {
	received := field(name, receivedHeader, ended)
	return Var{text: func(c *plugin.Ctx) (string, bool) {
		if c.Consumer == nil {
			return received.text(c)
		}
		s := of(c.Consumer)
		return s, s != ""
	}}
}

// original is a header as the client sent it, whatever became of it.
func original(name string) Var { return field(name, receivedHeader, received) }

// Original is a request header as the client sent it, whatever became of it; name
// is in any case, and "_" is "-".
func Original(name string) Var { return original(canonical(name)) }

// sentField is sent_http_NAME.
func sentField(name string) Var {
	name = canonical(name)
	if name != "content_length" {
		return field(name, responseHeader, present)
	}
	return Var{format: func(dst []byte, c *plugin.Ctx) ([]byte, bool) {
		if c.Response == nil || c.Response.Length < 0 {
			return dst, false
		}
		return strconv.AppendInt(dst, c.Response.Length, 10), true
	}}
}

// upstreamField is upstream_http_NAME: of the upstream's answer, whatever became
// of it.
func upstreamField(name string) Var { return field(canonical(name), upstreamHeader, received) }

// upstreamCookie is the cookie of that name that the upstream sets (RFC 6265
// §4.1), the last one.
func upstreamCookie(name string) Var {
	return Var{text: func(c *plugin.Ctx) (found string, ok bool) {
		h := upstreamHeader(c)
		if h == nil {
			return "", false
		}
		fields := h.Fields()
		for i := range fields {
			if !wire.EqualFold(fields[i].Name, "set-cookie") {
				continue
			}
			pair, _, _ := strings.Cut(fields[i].Value, ";")
			if k, v, has := strings.Cut(pair, "="); has && strings.TrimSpace(k) == name {
				found, ok = v, true
			}
		}
		return found, ok
	}}
}

// canonical is a field's name as it stands in the names of variables.
func canonical(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

func receivedHeader(c *plugin.Ctx) *wire.Header { return &c.Request.Header }

func responseHeader(c *plugin.Ctx) *wire.Header {
	if c.Response == nil {
		return nil
	}
	return &c.Response.Header
}

func upstreamHeader(c *plugin.Ctx) *wire.Header {
	if c.Sent.Source != plugin.FromUpstream {
		return nil
	}
	return responseHeader(c)
}

// A sight says which fields of a name count, where some were dropped.
type sight uint8

const (
	present  sight = iota // those that are there
	ended                 // if there are none, those that end at the gateway: the client did send them
	received              // those that came, if they were dropped or replaced
)

func (s sight) sees(f *wire.Field) bool {
	if s != ended {
		return s == received
	}
	name := f.Known.Name()
	return f.Known&wire.Nominated != 0 || name >= wire.KnownConnection && name < wire.KnownXConsumerUsername
}

// Ended says that a dropped field of a request ends at the gateway: the client
// did send it, and no plugin took it away.
func Ended(f *wire.Field) bool { return ended.sees(f) }

// field is the header whose name, in lower case and with "_" for "-", is name.
// Fields that repeat are joined with ", ", Cookie with "; ", as nginx does.
func field(name string, of func(*plugin.Ctx) *wire.Header, see sight) Var {
	sep := ", "
	if name == "cookie" {
		sep = "; "
	}
	return Var{text: func(c *plugin.Ctx) (string, bool) {
		h := of(c)
		if h == nil {
			return "", false
		}
		first, n, dropped := find(h, name, see)
		if n < 2 {
			return first, n > 0
		}
		return join(c, h, name, sep, dropped), true
	}}
}

// find returns the first of the fields that count, how many they are, and
// whether they are the dropped ones.
func find(h *wire.Header, name string, see sight) (first string, n int, dropped bool) {
	var firsts [2]string
	var counts [2]int
	fields := h.Fields()
	for i := range fields {
		f := &fields[i]
		if !named(f.Name, name) || f.Dropped && !see.sees(f) {
			continue
		}
		k := 0
		if f.Dropped {
			k = 1
		}
		if counts[k] == 0 {
			firsts[k] = f.Value
		}
		counts[k]++
	}
	if counts[1] > 0 && (see == received || counts[0] == 0) {
		return firsts[1], counts[1], true
	}
	return firsts[0], counts[0], false
}

func join(c *plugin.Ctx, h *wire.Header, name, sep string, dropped bool) string {
	b := getBuffer()
	defer putBuffer(b)
	fields := h.Fields()
	n := 0
	for i := range fields {
		f := &fields[i]
		if f.Dropped != dropped || !named(f.Name, name) {
			continue
		}
		if n++; n > 1 {
			*b = append(*b, sep...)
		}
		*b = append(*b, f.Value...)
	}
	return c.Keep(*b)
}

// named reports that the field's name is written as variable in variables.
func named(field, variable string) bool {
	if len(field) != len(variable) {
		return false
	}
	for i := range len(field) {
		b := field[i]
		switch {
		case 'A' <= b && b <= 'Z':
			b |= 0x20
		case b == '-':
			b = '_'
		}
		if b != variable[i] {
			return false
		}
	}
	return true
}
