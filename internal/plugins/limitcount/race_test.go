//go:build race

package limitcount

// The race detector makes pools forget.
const race = true
