//go:build !race

package wire

// The race detector makes pools drop what they hold.
const raceEnabled = false
