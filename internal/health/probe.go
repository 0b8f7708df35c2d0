package health

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"

	"weir/internal/wire"
)

// ask asks one target and counts its answer.
func (c *Checker) ask(ctx context.Context, t *Target, checks *Checks) {
	if t.gone.Load() {
		return
	}
	a := &checks.Active
	asked, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	status, err := c.probe(asked, t, a)
	var timeout net.Error
	switch {
	case ctx.Err() != nil || t.gone.Load():
	case err == nil && status == 0:
		t.succeed(a.Healthy.Successes)
	case err == nil:
		t.answered(status, &a.Healthy, &a.Unhealthy)
	case asked.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		t.fail(&t.counter.Timeout, a.Unhealthy.Timeouts)
	default:
		t.fail(&t.counter.TCP, a.Unhealthy.TCP)
	}
}

// probe connects and, unless that is all that type tcp asks for, sends one
// request. status is 0 with type tcp.
func (c *Checker) probe(ctx context.Context, t *Target, a *Active) (status int, err error) {
	conn, err := c.cfg.Dial(ctx, "tcp", t.Addr.String())
	if err != nil {
		return 0, err
	}
	defer func() { conn.Close() }()
	if a.Type == "tcp" {
		return 0, nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return 0, err
		}
	}
	// Close must not wait for the time-out.
	raw := conn
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	if a.Type == "https" {
		secure := tls.Client(conn, c.tlsConfig(t, a))
		conn = secure
		if err := secure.HandshakeContext(ctx); err != nil {
			return 0, err
		}
	}
	if _, err := conn.Write(request(t, a)); err != nil {
		return 0, err
	}
	var r wire.Reader
	r.Reset(conn, wire.Limits{})
	defer r.Reset(nil, wire.Limits{})
	var res wire.Response
	for {
		if err := r.ReadResponse(&res, a.Method); err != nil {
			return 0, err
		}
		if res.Status >= 200 {
			return res.Status, nil
		}
	}
}

// tlsConfig is for one connection. The server is asked for by the name that its
// Host header has.
func (c *Checker) tlsConfig(t *Target, a *Active) *tls.Config {
	cfg := new(tls.Config)
	if c.cfg.TLS != nil {
		if own := c.cfg.TLS(); own != nil {
			cfg = own.Clone()
		}
	}
	cfg.MinVersion = tls.VersionTLS12
	cfg.NextProtos = []string{"http/1.1"}
	cfg.InsecureSkipVerify = !a.Verify
	cfg.ServerName = hostOnly(t.host(a))
	return cfg
}

// host is whose name the target is asked in, as a Host header has it.
func (t *Target) host(a *Active) string {
	ip := t.Addr.Addr().String()
	if t.Addr.Addr().Is6() {
		ip = "[" + ip + "]"
	}
	return cmp.Or(a.Host, t.Name, ip)
}

func hostOnly(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.Trim(host, "[]")
}

func request(t *Target, a *Active) []byte {
	b := wire.AppendRequestLine(make([]byte, 0, 256), a.Method, a.Path)
	b = append(append(append(b, "Host: "...), t.host(a)...), "\r\nConnection: close\r\n"...)
	for _, h := range a.Headers {
		// A line feed would begin a line that nobody has configured.
		if !strings.ContainsAny(h, "\r\n") {
			b = append(append(b, h...), "\r\n"...)
		}
	}
	if a.Body != "" {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(a.Body)), 10), "\r\n"...)
	}
	return append(append(b, "\r\n"...), a.Body...)
}
