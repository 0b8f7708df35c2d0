//go:build !race

package limitconn

const race = false
