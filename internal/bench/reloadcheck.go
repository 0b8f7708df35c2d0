package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"weir/internal/bench/tenant"
)

// A check is what became of asking every product once.
type check struct {
	OK       int // 200 in the version that the portal has shown last
	Stale    int // 200 in an older one, still after a while
	NotFound int // 404
	Other    int // another status
	Errors   int // no answer
	First    string
}

// wrong notes the first product that is not right.
func (c *check) wrong(count *int, format string, args ...any) {
	*count++
	if c.First == "" {
		c.First = fmt.Sprintf(format, args...)
	}
}

// ask asks every product of a gateway once, those with an old version again until
// they have had time.
func (r *reloading) ask(ctx context.Context, g *reader) (check, error) {
	var c check
	shown := r.portal.Shown()
	if shown == nil {
		return c, fmt.Errorf("the gateway has not read the products from the portal")
	}
	client := &asker{dial: g.dial, timeout: r.opts.timeout}
	defer client.close()
	until := time.Now().Add(2 * settled)
	for i := range r.catalog.Len() {
		status, version, err := client.ask(ctx, r.catalog.Request(i))
		for err == nil && status == 200 && version < shown[i] && sleepUntil(ctx, time.Now().Add(20*time.Millisecond)) && time.Now().Before(until) {
			status, version, err = client.ask(ctx, r.catalog.Request(i))
		}
		if ctx.Err() != nil {
			return c, ctx.Err()
		}
		switch {
		case err != nil:
			c.wrong(&c.Errors, "%s: %v", r.catalog.Host(i), err)
		case status == 404:
			c.wrong(&c.NotFound, "%s: 404", r.catalog.Host(i))
		case status != 200:
			c.wrong(&c.Other, "%s: %d", r.catalog.Host(i), status)
		case version < shown[i]:
			c.wrong(&c.Stale, "%s: version %d, want %d", r.catalog.Host(i), version, shown[i])
		default:
			c.OK++
		}
	}
	return c, nil
}

// An asker asks one request at a time and sees the version of the answer.
type asker struct {
	dial    dialer
	timeout time.Duration
	nc      net.Conn // nil: not connected
	br      *bufio.Reader
}

func (a *asker) close() {
	if a.nc != nil {
		_ = a.nc.Close()
		a.nc = nil
	}
}

// ask is -1 for an answer that shows no version. A kept connection that turns out
// closed is replaced once.
func (a *asker) ask(ctx context.Context, request []byte) (status, version int, err error) {
	kept := a.nc != nil
	status, version, err = a.exchange(ctx, request)
	if err != nil && kept && ctx.Err() == nil {
		status, version, err = a.exchange(ctx, request)
	}
	return status, version, err
}

func (a *asker) exchange(ctx context.Context, request []byte) (status, version int, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if a.nc == nil {
		if a.nc, err = a.dial(ctx); err != nil {
			a.nc = nil
			return 0, 0, err
		}
		a.br = bufio.NewReader(a.nc)
	}
	deadline, _ := ctx.Deadline()
	_ = a.nc.SetDeadline(deadline)
	last := true
	if _, err = a.nc.Write(request); err == nil {
		status, version, last, err = readVersion(a.br)
	}
	if last || err != nil {
		a.close()
	}
	return status, version, err
}

func readVersion(br *bufio.Reader) (status, version int, last bool, err error) {
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return 0, 0, true, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, 0, true, err
	}
	if version, err = strconv.Atoi(resp.Header.Get(tenant.VersionHeader)); err != nil {
		version = -1
	}
	return resp.StatusCode, version, resp.Close, nil
}
