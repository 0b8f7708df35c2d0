package load

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"time"
)

// A Client asks one request at a time over one keep-alive connection. It is not
// safe for concurrent use.
type Client struct {
	// Dial opens a connection to the server.
	Dial func(context.Context) (net.Conn, error)

	nc net.Conn
	br *bufio.Reader
}

// Ask sends a request and returns the status of its response, whose body it
// drops. A kept-alive connection that turns out closed is replaced once.
func (c *Client) Ask(ctx context.Context, request []byte, timeout time.Duration) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	kept := c.nc != nil
	status, err = c.ask(ctx, request)
	if err != nil && kept && ctx.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		status, err = c.ask(ctx, request)
	}
	return status, err
}

// Close closes the connection.
func (c *Client) Close() {
	if c.nc != nil {
		_ = c.nc.Close()
		c.nc = nil
	}
}

func (c *Client) ask(ctx context.Context, request []byte) (status int, err error) {
	if c.nc == nil {
		if c.nc, err = c.Dial(ctx); err != nil {
			c.nc = nil
			return 0, err
		}
		c.br = bufio.NewReader(c.nc)
	}
	deadline, _ := ctx.Deadline()
	_ = c.nc.SetDeadline(deadline)
	close := true
	if _, err = c.nc.Write(request); err == nil {
		status, close, err = readResponse(c.br)
	}
	if close || err != nil {
		c.Close()
	}
	return status, err
}
