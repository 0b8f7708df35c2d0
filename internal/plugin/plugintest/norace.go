//go:build !race

package plugintest

// Race says that the race detector watches, under which pools forget at random:
// allocations cannot be counted.
const Race = false
