package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// stepClock sets the gateway's clock forward and back, by an hour and by decades. With
// an external store the network loses everything while it is an hour back: that must
// be noticed as soon as ever.
func stepClock(ctx context.Context, t *trial) error {
	c, err := newFalseClock(t.gateway.proc.cmd.Process.Pid)
	if err != nil {
		return err
	}
	defer c.close()
	const hour, decades = time.Hour, 20 * 365 * 24 * time.Hour
	for _, offset := range []time.Duration{hour, -hour, decades, -decades, 0} {
		if err := c.set(offset); err != nil {
			return err
		}
		if err := t.pause(ctx, t.opts.hold/2); err != nil {
			return err
		}
		if err := t.showsTime(ctx, offset); err != nil {
			return err
		}
	}
	t.note("the clock was set forward and back by an hour and by 20 years")
	if t.cluster == nil {
		return nil
	}
	if err := c.set(-hour); err != nil {
		return err
	}
	return silenceNetwork(ctx, t)
}

// showsTime makes sure that the gateway believes what it was told.
func (t *trial) showsTime(ctx context.Context, offset time.Duration) error {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+t.gateway.dataAddr()+"/bench/nowhere", nil)
	if err != nil {
		return err
	}
	resp, err := t.http.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return err
	}
	if off := time.Until(date) - offset; off.Abs() > time.Minute {
		return fmt.Errorf("the gateway says that it is %v, its clock was not set by %v", date, offset)
	}
	return nil
}
