package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/threescale"
)

// A kind is what a limiter counts.
type kind uint8

const (
	connections kind = iota
	bucket
	window
)

// String is the kind in keys (APIcast's).
func (k kind) String() string { return [...]string{"connections", "leaky_bucket", "fixed_window"}[k] }

// A limiter is a compiled limit.
type limiter struct {
	kind   kind
	test   threescale.Test
	prefix string // of the key
	name   *threescale.Text

	most   int64         // connections with the burst, count
	conn   int64         // that need not wait
	delay  time.Duration // for each conn connections ahead
	rate   float64       // per second
	burst  float64       // of a bucket
	window int64         // seconds
}

// limiters compiles the limits, in the order in which they count.
func (c *Config) limiters(product string) ([]*limiter, error) {
	var all []*limiter
	add := func(list string, i int, m *limiter, k *Key, cond *threescale.Condition, sound bool) error {
		err := m.meet(product, k, cond)
		if err == nil && !sound {
			err = errUnsound
		}
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", list, i, err)
		}
		all = append(all, m)
		return nil
	}
	for i := range c.Connections {
		k := &c.Connections[i]
		m := &limiter{kind: connections, conn: int64(k.Conn), most: int64(k.Conn + k.Burst), delay: schema.Seconds(k.Delay)}
		if err := add("connection_limiters", i, m, &k.Key, k.Condition, k.Conn > 0 && k.Burst >= 0 && k.Delay >= 0); err != nil {
			return nil, err
		}
	}
	for i := range c.Buckets {
		k := &c.Buckets[i]
		m := &limiter{kind: bucket, rate: float64(k.Rate), burst: float64(k.Burst)}
		if err := add("leaky_bucket_limiters", i, m, &k.Key, k.Condition, k.Rate > 0 && k.Burst >= 0); err != nil {
			return nil, err
		}
	}
	for i := range c.Windows {
		k := &c.Windows[i]
		m := &limiter{kind: window, most: int64(k.Count), window: min(max(int64(k.Window), 1), math.MaxInt32)}
		if err := add("fixed_window_limiters", i, m, &k.Key, k.Condition, k.Count > 0); err != nil {
			return nil, err
		}
	}
	return all, nil
}

var errUnsound = errors.New("its limit is not above 0, or its burst or delay below")

// meet compiles which requests are meant and how they are told apart.
func (m *limiter) meet(product string, k *Key, cond *threescale.Condition) (err error) {
	if m.test, err = cond.Compile(); err != nil {
		return fmt.Errorf("condition: %w", err)
	}
	if m.name, err = threescale.NewText(k.Name, k.Type); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	m.prefix = m.kind.String() + "_"
	if k.Scope != "global" {
		m.prefix = product + "_" + m.prefix
	}
	return nil
}

// appendKey appends the key of a request (apicast.md §6.2). The window's length
// is a part of it beside its beginning, so that counts of another length never
// stand in its place.
func (m *limiter) appendKey(dst []byte, c *plugin.Ctx, now func() time.Time) []byte {
	if m.kind == window {
		t := now().Unix()
		dst = append(strconv.AppendInt(dst, m.window, 10), "s_"...)
		dst = append(strconv.AppendInt(dst, t-t%m.window, 10), '_')
	}
	dst = append(dst, m.prefix...)
	return append(dst, m.name.Value(c)...)
}
