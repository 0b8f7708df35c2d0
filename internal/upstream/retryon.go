package upstream

import (
	"errors"
	"slices"
)

var errUnwanted = errors.New("unwanted status")

// retriesOn says that a failure of that kind is one of those after which a request
// has another try.
func (u *Upstream) retriesOn(k Kind) bool {
	on := u.retryOn
	switch {
	case on == nil:
		return true
	case k == Timeout:
		return on.Timeout
	case k == Unwanted, k == NoNodes:
		return true
	}
	return on.Error
}

// harmless says that sending the request twice does no more than once, or that
// this does not matter.
func (c *Call) harmless() bool {
	return idempotent(c.method()) || c.up.retryOn != nil && c.up.retryOn.NonIdempotent
}

// unwanted says that the answer is exchanged for another try.
func (c *Call) unwanted() bool {
	on := c.up.retryOn
	return on != nil && c.attempts < c.retries() && slices.Contains(on.Statuses, c.resp.Status) && c.harmless() && c.upload.replayable()
}

// decline gives the answer up.
func (c *Call) decline() error {
	status := c.resp.Status
	t := &c.Tries[len(c.Tries)-1]
	t.Status, t.Header = status, c.up.env.Now().Sub(c.began)
	c.checked().Answered(status)
	err := ours(c.lose(errUnwanted))
	if err.Kind == Reset { // else the client has left, or its body is broken
		err.Kind, c.repeat = Unwanted, true
	}
	return err
}
