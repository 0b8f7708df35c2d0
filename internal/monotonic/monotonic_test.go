package monotonic

import (
	"testing"
	"time"
)

func TestScale(t *testing.T) {
	before := Now()
	now := time.Now()
	after := Now()
	if at := Of(now); at < before || at > after {
		t.Errorf("%d is not between %d and %d", at, before, after)
	}
	if got := Time(Of(now)); !got.Equal(now) || got.Sub(now) != 0 {
		t.Errorf("%v, want %v", got, now)
	}
	// A clock that tests make has no monotonic reading; its differences are kept.
	made := time.Unix(1_000_000, 0)
	if d := Of(made.Add(time.Hour)) - Of(made); d != int64(time.Hour) {
		t.Errorf("an hour is %d", d)
	}
}

// A step of the clock changes what a time says of the day and not its monotonic
// reading, so that a time made of the day alone is off by the step.
func TestSteps(t *testing.T) {
	now := time.Now()
	wall := now.Round(0).Add(time.Hour) // as read after a step by an hour, the monotonic reading taken off
	if Of(now) == Of(wall) {
		t.Error("the day is not what counts")
	}
	if d := Of(now.Add(time.Second)) - Of(now); d != int64(time.Second) {
		t.Errorf("a second is %d", d)
	}
}
