package logentry

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/document"
	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/wire"
)

// maxListed is how many headers or arguments an entry has at most (the limit of
// ngx.req.get_headers and get_uri_args).
const maxListed = 100

// server is the member server of full entries.
func server(version string) []byte {
	host, _ := os.Hostname() // empty where the system does not know
	dst := appendText([]byte{'{'}, "hostname", host)
	return append(appendText(append(dst, ','), "version", version), '}')
}

// appendFull appends the full entry, its members in the order of their names.
func (e *Entry) appendFull(dst []byte, c *plugin.Ctx, s *seen) []byte {
	latency, upstream, proxied := latencies(c)
	dst = appendName(append(dst, '{'), "apisix_latency")
	dst = appendMillis(dst, max(latency-upstream, 0))
	dst = appendText(append(dst, ','), "client_ip", c.Client)
	if c.Consumer != nil {
		dst = append(appendName(append(dst, ','), "consumer"), '{')
		dst = append(appendText(dst, "username", c.Consumer.Name), '}')
	}
	dst = appendMillis(appendName(append(dst, ','), "latency"), latency)
	dst = e.appendRequest(appendName(append(dst, ','), "request"), c, s)
	dst = e.appendResponse(appendName(append(dst, ','), "response"), c, s)
	serviceID := host(c)
	if c.Route != nil {
		dst = appendText(append(dst, ','), "route_id", c.Route.ID)
		serviceID = c.Route.ServiceID
	} else if e.NoRoute != "" {
		dst = appendText(append(dst, ','), "route_id", e.NoRoute)
	}
	dst = append(appendName(append(dst, ','), "server"), e.server...)
	dst = appendText(append(dst, ','), "service_id", serviceID)
	dst = strconv.AppendInt(appendName(append(dst, ','), "start_time"), c.Start.UnixMilli(), 10)
	if proxied {
		dst = appendTries(append(appendName(append(dst, ','), "upstream"), '"'), c)
		dst = appendMillis(appendName(append(dst, `",`...), "upstream_latency"), upstream)
	}
	if e.extra != nil {
		dst = e.extra.appendMembers(dst, c, s, func(name string) bool { return e.inFull(name, c, proxied) })
	}
	return append(dst, '}')
}

// inFull says that the full entry has a member of that name.
func (e *Entry) inFull(name string, c *plugin.Ctx, proxied bool) bool {
	switch name {
	case "apisix_latency", "client_ip", "latency", "request", "response", "server", "service_id", "start_time":
		return true
	case "consumer":
		return c.Consumer != nil
	case "route_id":
		return c.Route != nil || e.NoRoute != ""
	case "upstream", "upstream_latency":
		return proxied
	}
	return false
}

// latencies are the time of the whole request and of its tries together.
func latencies(c *plugin.Ctx) (all, upstream time.Duration, proxied bool) {
	for i := range c.Sent.Tries {
		upstream += c.Sent.Tries[i].Total
	}
	return c.Sent.End.Sub(c.Start), upstream, len(c.Sent.Tries) > 0
}

// appendMillis appends milliseconds with their fraction.
func appendMillis(dst []byte, d time.Duration) []byte {
	return strconv.AppendFloat(dst, float64(d.Microseconds())/1000, 'f', -1, 64)
}

func appendTries(dst []byte, c *plugin.Ctx) []byte {
	for i := range c.Sent.Tries {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, c.Sent.Tries[i].Addr...)
	}
	return dst
}

// host is nginx's $host.
func host(c *plugin.Ctx) string {
	h := c.Request.Host
	if i := strings.LastIndexByte(h, ':'); i > strings.LastIndexByte(h, ']') {
		h = h[:i]
	}
	return strings.ToLower(h)
}

func (e *Entry) appendRequest(dst []byte, c *plugin.Ctx, s *seen) []byte {
	dst = append(dst, '{')
	if s.hasReq && e.bodies.IncludeReqBody && s.reqHolds {
		dst = append(appendText(dst, "body", view(s.req)), ',')
	}
	dst = s.appendHeaders(appendName(dst, "headers"), &c.Request.Header, nil)
	dst = appendText(append(dst, ','), "method", c.Request.Method)
	dst = s.appendArguments(appendName(append(dst, ','), "querystring"), c)
	dst = strconv.AppendInt(appendName(append(dst, ','), "size"), c.Sent.Received, 10)

	s.text = append(s.text[:0], c.Path...)
	if q := c.RawQuery(); q != "" {
		s.text = append(append(s.text, '?'), q...)
	}
	dst = appendText(append(dst, ','), "uri", view(s.text))
	path := len(s.text)
	s.text = append(append(append(s.text, c.Scheme...), "://"...), host(c)...)
	s.text = strconv.AppendUint(append(s.text, ':'), uint64(c.Server.Port()), 10)
	s.text = append(s.text, s.text[:path]...)
	return append(appendText(append(dst, ','), "url", view(s.text[path:])), '}')
}

func (e *Entry) appendResponse(dst []byte, c *plugin.Ctx, s *seen) []byte {
	dst = append(dst, '{')
	if s.hasResp {
		dst = append(appendText(dst, "body", view(s.response())), ',')
	}
	dst = appendName(dst, "headers")
	if r := c.Response; r != nil {
		dst = s.appendHeaders(dst, &r.Header, r)
	} else {
		dst = append(dst, "{}"...)
	}
	dst = strconv.AppendInt(appendName(append(dst, ','), "size"), c.Sent.Bytes, 10)
	dst = strconv.AppendInt(appendName(append(dst, ','), "status"), int64(c.Sent.Status), 10)
	return append(dst, '}')
}

// A pair is a name and one of its values, in the order in which they came.
type pair struct {
	name, value string
	bare        bool // an argument without "=", whose value is true
}

// appendHeaders appends the fields of a head: of the request as the client sent
// them, without what plugins took away, or of the response, which is then given.
func (s *seen) appendHeaders(dst []byte, h *wire.Header, response *wire.Response) []byte {
	s.pairs = s.pairs[:0]
	fields := h.Fields()
	for i := range fields {
		f := &fields[i]
		if f.Dropped && (response != nil || !expr.Ended(f)) || len(s.pairs) == maxListed {
			continue
		}
		s.pairs = append(s.pairs, pair{name: f.Name, value: f.Value})
	}
	if response != nil && response.Length >= 0 {
		s.pairs = append(s.pairs, pair{name: "content-length", value: strconv.FormatInt(response.Length, 10)})
	}
	return s.appendPairs(dst, func(a, b string) bool { return wire.EqualFold(a, b) }, true)
}

// appendArguments appends the arguments of the query.
func (s *seen) appendArguments(dst []byte, c *plugin.Ctx) []byte {
	s.pairs = s.pairs[:0]
	for rest := c.RawQuery(); rest != "" && len(s.pairs) < maxListed; {
		var arg string
		arg, rest, _ = strings.Cut(rest, "&")
		name, value, valued := strings.Cut(arg, "=")
		if name = c.Unescape(name); name != "" {
			s.pairs = append(s.pairs, pair{name, c.Unescape(value), !valued})
		}
	}
	return s.appendPairs(dst, func(a, b string) bool { return a == b }, false)
}

// appendPairs appends an object. A name that repeats has an array.
func (s *seen) appendPairs(dst []byte, same func(a, b string) bool, lower bool) []byte {
	dst = append(dst, '{')
	for i := range s.pairs {
		p := &s.pairs[i]
		if p.name == "" {
			continue // was listed with an earlier one
		}
		name := p.name
		if lower {
			name = s.lower(name)
		}
		dst = append(document.AppendText(next(dst), name), ':')
		start, n := len(dst), 0
		for j := i; j < len(s.pairs); j++ {
			q := &s.pairs[j]
			if j > i && (q.name == "" || !same(q.name, p.name)) {
				continue
			}
			if n++; n > 1 {
				dst = append(dst, ',')
			}
			dst = q.appendValue(dst)
			if j > i {
				q.name = ""
			}
		}
		if n > 1 {
			dst = append(slices.Insert(dst, start, '['), ']')
		}
	}
	return append(dst, '}')
}

func (p *pair) appendValue(dst []byte) []byte {
	if p.bare {
		return append(dst, "true"...)
	}
	return document.AppendText(dst, p.value)
}

// lower is name in lower case, until the next call.
func (s *seen) lower(name string) string {
	s.text = s.text[:0]
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		s.text = append(s.text, c)
	}
	return view(s.text)
}
