//go:build !linux || !amd64

package bench

import (
	"errors"
	"time"
)

type falseClock struct{}

func needClock(*faultOptions) error { return errors.New("only on Linux on amd64") }

func newFalseClock(int) (*falseClock, error) { return nil, needClock(nil) }

func (c *falseClock) set(time.Duration) error { return needClock(nil) }

func (c *falseClock) close() {}
