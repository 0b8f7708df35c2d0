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
	"remote_port":           {format: remotePort},
	"realip_remote_addr":    {format: addr(func(c *plugin.Ctx) netip.AddrPort { return c.Peer })},
	"realip_remote_port":    {format: port(func(c *plugin.Ctx) netip.AddrPort { return c.Peer })},
	"server_addr":           {format: addr(func(c *plugin.Ctx) netip.AddrPort { return c.Server })},
	"server_port":           {format: port(func(c *plugin.Ctx) netip.AddrPort { return c.Server })},
	"server_protocol":       {text: func(c *plugin.Ctx) (string, bool) { return c.Request.Proto.String(), true }},
	"remote_user":           {format: remoteUser},
	"host":                  {text: host},
	"http_host":             {text: httpHost},
	"server_name":           {text: func(*plugin.Ctx) (string, bool) { return "_", true }},
	"binary_remote_addr":    {format: binaryAddr},
	"uri":                   {text: func(c *plugin.Ctx) (string, bool) { return c.Path, true }},
	"document_uri":          {text: func(c *plugin.Ctx) (string, bool) { return c.Path, true }},
	"request_uri":           {format: requestURI},
	"real_request_uri":      {text: func(c *plugin.Ctx) (string, bool) { return c.Request.Target, true }},
	"args":                  {text: args},
	"query_string":          {text: args},
	"is_args":               {text: isArgs},
	"request":               {format: requestLine},
	"request_method":        {text: method},
	"method":                {text: method},
	"scheme":                {text: func(c *plugin.Ctx) (string, bool) { return c.Scheme, true }},
	"https":                 {text: https},
	"content_length":        {text: header("content-length")},
	"content_type":          {text: header("content-type")},
	"status":                {format: status, number: true},
	"bytes_sent":            {format: count(func(c *plugin.Ctx) int64 { return c.Sent.Bytes }), number: true},
	"body_bytes_sent":       {format: count(func(c *plugin.Ctx) int64 { return c.Sent.BodyBytes })},
	"request_length":        {format: count(func(c *plugin.Ctx) int64 { return c.Sent.Received }), number: true},
	"request_time":          {format: requestTime, number: true},
	"time_local":            {format: timeLocal},
	"time_iso8601":          {format: timeISO8601},
	"msec":                  {format: msec},
	"pid":                   {format: pid},
	"upstream_addr":         {format: upstreamAddr},
	"upstream_status":       {format: upstreamStatus},
	"upstream_connect_time": {format: upstreamTime(func(t *plugin.Try) time.Duration { return t.Connect }), number: true},
	"upstream_header_time":  {format: upstreamTime(func(t *plugin.Try) time.Duration { return t.Header }), number: true},
	"upstream_response_time": {format: upstreamTime(func(t *plugin.Try) time.Duration {
		return t.Total
	}), number: true},
	"upstream_scheme":   {text: upstreamScheme},
	"upstream_host":     {text: upstreamHost},
	"upstream_uri":      {text: func(c *plugin.Ctx) (string, bool) { return c.To.Target, true }},
	"balancer_ip":       {text: balancerIP},
	"balancer_port":     {typed: balancerPort},
	"request_id":        {text: func(c *plugin.Ctx) (string, bool) { return c.RequestID(), true }},
	"consumer_name":     {text: consumer(func(c *plugin.Consumer) string { return c.Name })},
	"consumer_group_id": {text: consumer(func(c *plugin.Consumer) string { return c.GroupID })},
	"route_id":          {text: route(func(r *plugin.Route) string { return r.ID })},
	"route_name":        {text: route(func(r *plugin.Route) string { return r.Name })},
	"service_id":        {text: route(func(r *plugin.Route) string { return r.ServiceID })},
	"service_name":      {text: route(func(r *plugin.Route) string { return r.ServiceName })},

	"graphql_operation":   graphqlVar(func(q *graphqlQuery) value { return textIf(q.operation) }),
	"graphql_name":        graphqlVar(func(q *graphqlQuery) value { return textOf(q.name) }),
	"graphql_root_fields": graphqlVar(func(q *graphqlQuery) value { return value{kind: tree, tree: q.rootFields} }),

	"original_x_forwarded_for":   original("x_forwarded_for"),
	"original_x_forwarded_proto": original("x_forwarded_proto"),
	"original_x_forwarded_host":  original("x_forwarded_host"),
	"original_x_forwarded_port":  original("x_forwarded_port"),
	"original_forwarded":         original("forwarded"),

	// Variables of nginx that have no value here: logs show "-".
	"connection": {}, "connection_requests": {}, "connections_active": {}, "gzip_ratio": {}, "limit_rate": {},
	"pipe": {}, "request_completion": {}, "request_filename": {}, "request_body": {}, "request_body_file": {},
	"http2": {}, "http3": {}, "ssl_protocol": {}, "ssl_cipher": {}, "ssl_server_name": {}, "ssl_session_reused": {},
	"ssl_client_verify": {}, "ssl_client_s_dn": {}, "ssl_client_i_dn": {}, "ssl_client_serial": {},
	"proxy_protocol_addr": {}, "proxy_protocol_port": {}, "upstream_cache_status": {},
	"upstream_bytes_received": {}, "upstream_bytes_sent": {}, "upstream_response_length": {},
}

// replaceable is immutable. Plugins give these variables another value by
// Ctx.SetVar.
var replaceable = map[string]Var{
	"apisix_request_id":             {text: func(c *plugin.Ctx) (string, bool) { return c.RequestID(), true }},
	"request_line":                  {format: requestLine},
	"rate_limiting_info":            {},
	"resp_body":                     constantly(""),
	"apisix_upstream_response_time": vars["upstream_response_time"],
	"upstream_unresolved_host":      {text: unresolvedHost},
	"upstream_upgrade":              constantly(""),
	"upstream_connection":           constantly(""),
	"upstream_mirror_host":          constantly(""),
	"upstream_mirror_uri":           constantly(""),

	"request_type":                    constantly("traditional_http"),
	"request_llm_model":               constantly(""),
	"llm_model":                       constantly(""),
	"llm_time_to_first_token":         constantly("0"),
	"llm_prompt_tokens":               constantly("0"),
	"llm_completion_tokens":           constantly("0"),
	"llm_total_tokens":                constantly("0"),
	"llm_stream":                      constantly("false"),
	"llm_has_tool_calls":              constantly("false"),
	"llm_tool_count":                  constantly("0"),
	"llm_end_user_id":                 constantly(""),
	"llm_cache_read_input_tokens":     constantly("0"),
	"llm_cache_creation_input_tokens": constantly("0"),
	"llm_reasoning_tokens":            constantly("0"),
	"llm_content_risk_level":          constantly(""),
	"mqtt_client_id":                  {},
	"rpc_time":                        {},
	"redis_cmd_line":                  {},
}

func constantly(s string) Var {
	return Var{text: func(*plugin.Ctx) (string, bool) { return s, true }}
}

// textIf is s; an empty one is absent.
func textIf(s string) value {
	if s == "" {
		return value{}
	}
	return textOf(s)
}

// families is immutable.
var families = []struct {
	prefix string
	of     func(rest string) Var
}{
	{"arg_", func(name string) Var {
		return Var{typed: func(c *plugin.Ctx, buf *[]byte) value { return argument(c, name, buf) }}
	}},
	{"cookie_", func(name string) Var {
		return Var{text: func(c *plugin.Ctx) (string, bool) { return cookie(c, name) }}
	}},
	{"http_", requestField},
	{"sent_http_", sentField},
	{"upstream_http_", upstreamField},
	{"upstream_cookie_", upstreamCookie},
	{"post_arg_", postArg},
	{"uri_param_", uriParam},
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

// remotePort is empty where proxies do not report it.
func remotePort(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	if c.ClientPort == 0 {
		return dst, true
	}
	return strconv.AppendUint(dst, uint64(c.ClientPort), 10), true
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

func endTime(c *plugin.Ctx) time.Time {
	if c.Sent.End.IsZero() {
		return time.Now()
	}
	return c.Sent.End
}

func requestTime(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	return appendSeconds(dst, endTime(c).Sub(c.Start)), true
}

func timeLocal(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	return endTime(c).AppendFormat(dst, "02/Jan/2006:15:04:05 -0700"), true
}

func timeISO8601(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	return endTime(c).AppendFormat(dst, "2006-01-02T15:04:05-07:00"), true
}

func msec(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	return appendSeconds(dst, time.Duration(endTime(c).UnixMilli())*time.Millisecond), true
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

// balancerPort is a number, as it is in APISIX.
func balancerPort(c *plugin.Ctx, _ *[]byte) value {
	a := lastTry(c).Addr
	n, err := strconv.Atoi(a[strings.LastIndexByte(a, ':')+1:])
	if err != nil {
		return value{}
	}
	return numberOf(float64(n))
}

// unresolvedHost is the node's host as it is configured.
func unresolvedHost(c *plugin.Ctx) (string, bool) {
	if i := strings.LastIndexByte(c.Sent.Node, ':'); i > 0 {
		return strings.Trim(c.Sent.Node[:i], "[]"), true
	}
	s, _ := balancerIP(c)
	return s, true
}

// binaryAddr is the client's address as 4 or 16 bytes.
func binaryAddr(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	a, err := netip.ParseAddr(c.Client)
	if err != nil {
		return dst, false
	}
	if a = a.Unmap(); a.Is4() {
		b := a.As4()
		return append(dst, b[:]...), true
	}
	b := a.As16()
	return append(dst, b[:]...), true
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}
