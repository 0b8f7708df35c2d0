//go:build !race

package limitreq

const race = false
