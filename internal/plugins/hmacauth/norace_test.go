//go:build !race

package hmacauth

const raceEnabled = false
