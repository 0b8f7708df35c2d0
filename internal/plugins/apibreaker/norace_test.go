//go:build !race

package apibreaker

const race = false
