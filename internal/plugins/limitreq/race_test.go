//go:build race

package limitreq

// The race detector makes pools forget.
const race = true
