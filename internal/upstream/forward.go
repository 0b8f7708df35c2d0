package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"

	"weir/internal/wire"
)

// A tunnel is what a connection leads through the node to; the zero tunnel is
// none.
type tunnel struct{ to, authorization string }

func (u *Upstream) through() tunnel {
	if u.tunnel == nil {
		return tunnel{}
	}
	return tunnel{u.tunnel.To, u.tunnel.Authorization}
}

// open connects to addr and, where that is a forward proxy, through it. ctx
// bounds both.
func (c *Call) open(ctx context.Context, addr string) (*net.TCPConn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	tcp := nc.(*net.TCPConn)
	if c.id.tunnel == (tunnel{}) {
		return tcp, nil
	}
	stop := context.AfterFunc(ctx, func() { tcp.SetDeadline(past) })
	err = c.id.tunnel.ask(tcp)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return tcp, nil
}

// ask has the proxy at the other end of tcp connect it with t.to (RFC 9110
// §9.3.6).
func (t tunnel) ask(tcp *net.TCPConn) error {
	head := "CONNECT " + t.to + " HTTP/1.1\r\nHost: " + t.to + "\r\n"
	if t.authorization != "" {
		head += "Proxy-Authorization: " + t.authorization + "\r\n"
	}
	if _, err := tcp.Write([]byte(head + "\r\n")); err != nil {
		return err
	}
	var r wire.Reader
	r.Reset(tcp, wire.Limits{})
	defer r.Reset(nil, wire.Limits{})
	var answer wire.Response
	if err := r.ReadResponse(&answer, "CONNECT"); err != nil {
		return err
	}
	switch {
	case answer.Status < 200 || answer.Status > 299:
		return fmt.Errorf("the forward proxy answered %d", answer.Status)
	case r.Unread() > 0:
		return errors.New("the forward proxy spoke first in the tunnel")
	}
	return nil
}
