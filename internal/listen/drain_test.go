package listen

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// Whoever got in before Begin is waited for, and nobody gets in after it.
func TestDrain(t *testing.T) {
	var d Drain
	var inside sync.WaitGroup
	for range 8 {
		inside.Go(func() {
			for d.Enter() {
				d.Go(func() {})
				d.Leave()
			}
		})
	}
	d.Begin()
	inside.Wait()
	if !d.Begun() || d.Enter() {
		t.Error("let in")
	}
	if err := d.Wait(t.Context(), func() { t.Error("cut") }); err != nil {
		t.Error(err)
	}
}

// What does not end by itself is cut when the context ends.
func TestDrainCuts(t *testing.T) {
	var d Drain
	if !d.Enter() {
		t.Fatal("not let in")
	}
	d.Begin()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Wait(ctx, d.Leave); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
