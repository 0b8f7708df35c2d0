package expr

import (
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"weir/internal/plugin"
)

// vars is immutable. The meanings are nginx's (ngx_http_core_module,
// ngx_http_upstream_module, ngx_http_log_module) and APISIX's
// (apisix/core/ctx.lua).
var vars = map[string]Var{
	"remote_addr":           {text: func(c *plugin.Ctx) (string, bool) { return c.Client, true }},
	"remote_port":           {format: port(func(c *plugin.Ctx) netip.AddrPort { return c.Peer })},
	"realip_remote_addr":    {format: addr(func(c *plugin.Ctx) netip.AddrPort { return c.Peer })},
	"realip_remote_port":    {format: port(func(c *plugin.Ctx) netip.AddrPort { return c.Peer })},
	"server_addr":           {format: addr(func(c *plugin.Ctx) netip.AddrPort { return c.Server })},
	"server_port":           {format: port(func(c *plugin.Ctx) netip.AddrPort { return c.Server })},
	"server_protocol":       {text: func(c *plugin.Ctx) (string, bool) { return c.Request.Proto.String(), true }},
	"remote_user":           {format: remoteUser},
	"host":                  {format: host},
	"http_host":             {text: httpHost},
	"uri":                   {text: func(c *plugin.Ctx) (string, bool) { return c.Path, true }},
	"request_uri":           {format: requestURI},
	"real_request_uri":      {text: func(c *plugin.Ctx) (string, bool) { return c.Request.Target, true }},
	"args":                  {text: args},
	"query_string":          {text: args},
	"is_args":               {text: isArgs},
	"request":               {format: requestLine},
	"request_line":          {format: requestLine},
	"request_method":        {text: method},
	"method":                {text: method},
	"scheme":                {text: func(c *plugin.Ctx) (string, bool) { return c.Scheme, true }},
	"https":                 {text: https},
	"content_length":        {text: header("content-length")},
	"content_type":          {text: header("content-type")},
	"status":                {format: status},
	"bytes_sent":            {format: count(func(c *plugin.Ctx) int64 { return c.Sent.Bytes })},
	"body_bytes_sent":       {format: count(func(c *plugin.Ctx) int64 { return c.Sent.BodyBytes })},
	"request_length":        {format: count(func(c *plugin.Ctx) int64 { return c.Sent.Received })},
	"request_time":          {format: requestTime},
	"time_local":            {format: timeLocal},
	"time_iso8601":          {format: timeISO8601},
	"msec":                  {format: msec},
	"pid":                   {format: pid},
	"upstream_addr":         {format: upstreamAddr},
	"upstream_status":       {format: upstreamStatus},
	"upstream_connect_time": {format: upstreamTime(func(t *plugin.Try) time.Duration { return t.Connect })},
	"upstream_header_time":  {format: upstreamTime(func(t *plugin.Try) time.Duration { return t.Header })},
	"upstream_response_time": {format: upstreamTime(func(t *plugin.Try) time.Duration {
		return t.Total
	})},
	"upstream_scheme":   {text: upstreamScheme},
	"upstream_host":     {text: upstreamHost},
	"upstream_uri":      {text: func(c *plugin.Ctx) (string, bool) { return c.To.Target, true }},
	"balancer_ip":       {text: balancerIP},
	"balancer_port":     {text: balancerPort},
	"apisix_request_id": {text: func(c *plugin.Ctx) (string, bool) { return c.RequestID(), true }},
	"request_id":        {text: func(c *plugin.Ctx) (string, bool) { return c.RequestID(), true }},
	"consumer_name":     {text: consumer(func(c *plugin.Consumer) string { return c.Name })},
	"consumer_group_id": {text: consumer(func(c *plugin.Consumer) string { return c.GroupID })},
	"route_id":          {text: route(func(r *plugin.Route) string { return r.ID })},
	"route_name":        {text: route(func(r *plugin.Route) string { return r.Name })},
	"service_id":        {text: route(func(r *plugin.Route) string { return r.ServiceID })},
	"service_name":      {text: route(func(r *plugin.Route) string { return r.ServiceName })},
}

// families is immutable.
var families = []struct {
	prefix string
	of     func(rest string) Var
}{
	{"arg_", func(name string) Var {
		return Var{text: func(c *plugin.Ctx) (string, bool) { return c.Query(name) }}
	}},
	{"cookie_", func(name string) Var {
		return Var{text: func(c *plugin.Ctx) (string, bool) { return cookie(c, name) }}
	}},
	{"http_", func(name string) Var { return field(name, requestHeader) }},
	{"sent_http_", func(name string) Var { return field(name, responseHeader) }},
}

func hostname() Var {
	name, err := os.Hostname()
	return Var{text: func(*plugin.Ctx) (string, bool) { return name, err == nil }}
}

func addr(of func(*plugin.Ctx) netip.AddrPort) func([]byte, *plugin.Ctx) ([]byte, bool) {
	return func(dst []byte, c *plugin.Ctx) ([]byte, bool) {
		a := of(c).Addr().Unmap()
		return a.AppendTo(dst), a.IsValid()
	}
}

func port(of func(*plugin.Ctx) netip.AddrPort) func([]byte, *plugin.Ctx) ([]byte, bool) {
	return func(dst []byte, c *plugin.Ctx) ([]byte, bool) {
		return strconv.AppendUint(dst, uint64(of(c).Port()), 10), true
	}
}

func count(of func(*plugin.Ctx) int64) func([]byte, *plugin.Ctx) ([]byte, bool) {
	return func(dst []byte, c *plugin.Ctx) ([]byte, bool) {
		return strconv.AppendInt(dst, of(c), 10), true
	}
}

func consumer(of func(*plugin.Consumer) string) func(*plugin.Ctx) (string, bool) {
	return func(c *plugin.Ctx) (string, bool) {
		if c.Consumer == nil {
			return "", false
		}
		s := of(c.Consumer)
		return s, s != ""
	}
}

func route(of func(*plugin.Route) string) func(*plugin.Ctx) (string, bool) {
	return func(c *plugin.Ctx) (string, bool) {
		if c.Route == nil {
			return "", false
		}
		s := of(c.Route)
		return s, s != ""
	}
}

func pid(dst []byte, _ *plugin.Ctx) ([]byte, bool) {
	return strconv.AppendInt(dst, int64(os.Getpid()), 10), true
}

// The log writes instants with the precision of a millisecond.

func ended(c *plugin.Ctx) time.Time {
	if c.Sent.End.IsZero() {
		return time.Now()
	}
	return c.Sent.End
}

func requestTime(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	return appendSeconds(dst, ended(c).Sub(c.Start)), true
}

func timeLocal(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	return ended(c).AppendFormat(dst, "02/Jan/2006:15:04:05 -0700"), true
}

func timeISO8601(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	return ended(c).AppendFormat(dst, "2006-01-02T15:04:05-07:00"), true
}

func msec(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	return appendSeconds(dst, time.Duration(ended(c).UnixMilli())*time.Millisecond), true
}

// appendSeconds appends d as seconds with three digits after the point.
func appendSeconds(dst []byte, d time.Duration) []byte {
	ms := max(d.Milliseconds(), 0)
	dst = append(strconv.AppendInt(dst, ms/1000, 10), '.')
	return append(dst, byte('0'+ms/100%10), byte('0'+ms/10%10), byte('0'+ms%10))
}

// Upstream lists have one entry per try, as nginx writes them.

func upstreamAddr(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	for i := range c.Sent.Tries {
		dst = append(comma(dst, i), c.Sent.Tries[i].Addr...)
	}
	return dst, len(c.Sent.Tries) > 0
}

func upstreamStatus(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	for i := range c.Sent.Tries {
		dst = comma(dst, i)
		if s := c.Sent.Tries[i].Status; s != 0 {
			dst = strconv.AppendInt(dst, int64(s), 10)
		} else {
			dst = append(dst, '-')
		}
	}
	return dst, len(c.Sent.Tries) > 0
}

func upstreamTime(of func(*plugin.Try) time.Duration) func([]byte, *plugin.Ctx) ([]byte, bool) {
	return func(dst []byte, c *plugin.Ctx) ([]byte, bool) {
		for i := range c.Sent.Tries {
			dst = comma(dst, i)
			if t := &c.Sent.Tries[i]; t.Status == 0 && of(t) == 0 {
				dst = append(dst, '-') // this point was not reached
			} else {
				dst = appendSeconds(dst, of(t))
			}
		}
		return dst, len(c.Sent.Tries) > 0
	}
}

func comma(dst []byte, i int) []byte {
	if i == 0 {
		return dst
	}
	return append(dst, ", "...)
}

func lastTry(c *plugin.Ctx) *plugin.Try {
	if n := len(c.Sent.Tries); n > 0 {
		return &c.Sent.Tries[n-1]
	}
	return &plugin.Try{}
}

func upstreamScheme(c *plugin.Ctx) (string, bool) {
	return firstOf(lastTry(c).Scheme, c.To.Scheme, "http"), true
}

func upstreamHost(c *plugin.Ctx) (string, bool) {
	return firstOf(lastTry(c).Host, c.To.Host, c.Request.Host), true
}

func balancerIP(c *plugin.Ctx) (string, bool) {
	a := lastTry(c).Addr
	i := strings.LastIndexByte(a, ':')
	if i < 0 {
		return "", false
	}
	return strings.Trim(a[:i], "[]"), true
}

func balancerPort(c *plugin.Ctx) (string, bool) {
	a := lastTry(c).Addr
	i := strings.LastIndexByte(a, ':')
	return a[i+1:], i >= 0
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}
