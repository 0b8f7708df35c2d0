//go:build race

package router

// sequences is how many random histories are compared with the reference.
const sequences = 20
