//go:build !race

package limitcount

const race = false
