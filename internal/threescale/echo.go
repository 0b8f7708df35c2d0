package threescale

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/wire"
)

// echoes says that an upstream is the gateway's own echo, http://echo, which
// answers with the request that it would get (apicast.md §1).
func (u *Upstream) echoes() bool { return u.Scheme == "http" && u.Header == "echo" && !u.Websocket }

// echoBody bounds the bodies that are answered, in bytes.
const echoBody = 1 << 20

// longestDelay bounds the delay that a request may ask for.
const longestDelay = 5 * time.Minute

var (
	echoConfig    = &plugin.Reply{Status: 200, Body: []byte("{}\n")}
	unconditioned = &plugin.Reply{Status: 412}
	echoTooLarge  = &plugin.Reply{Status: 413}
)

// echo answers a request that was made ready for the upstream.
func echo(c *plugin.Ctx, target string) *plugin.Reply {
	_, query, _ := strings.Cut(target, "?")
	delay, _ := LastArgument(query, "delay")
	if n, err := strconv.ParseFloat(delay, 64); err == nil && n > 0 {
		c.Pause(min(schema.Seconds(n), longestDelay))
	}
	for _, name := range [...]string{"If-Match", "If-Unmodified-Since"} {
		if _, asks := c.Header(name); asks { // RFC 9110 §13.1: there is neither a tag nor a date
			return unconditioned
		}
	}
	if strings.HasPrefix(target, "/config/") {
		return echoConfig
	}
	out := append(make([]byte, 0, 512), c.Request.Method...)
	out = append(append(append(out, ' '), target...), " HTTP/1.1\nX-Real-IP: "...)
	out = append(append(append(out, c.Client...), "\nHost: "...), c.To.Host...)
	out = append(out, '\n')
	fields := c.Request.Header.Fields()
	for i := range fields {
		if f := &fields[i]; !f.Dropped && endToEnd(f) {
			out = append(append(append(append(out, f.Name...), ": "...), f.Value...), '\n')
		}
	}
	if c.Request.Length == 0 {
		return &plugin.Reply{Status: 200, Body: out}
	}
	body, err := c.Buffer.Body(echoBody)
	if errors.Is(err, plugin.ErrBodyTooLarge) {
		return echoTooLarge
	}
	out = append(strconv.AppendInt(append(out, "Content-Length: "...), int64(len(body)), 10), "\n\n"...)
	return &plugin.Reply{Status: 200, Body: append(append(out, body...), '\n')}
}

// endToEnd says that a field goes to the upstream as it is.
func endToEnd(f *wire.Field) bool {
	for _, name := range [...]string{
		"Host", "X-Real-IP", "Connection", "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
		"Content-Length",
	} {
		if wire.EqualFold(f.Name, name) {
			return false
		}
	}
	return f.Known&wire.Nominated == 0
}
