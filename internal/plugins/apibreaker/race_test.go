//go:build race

package apibreaker

// The race detector makes pools forget.
const race = true
