//go:build race

package limitconn

// The race detector makes pools forget.
const race = true
