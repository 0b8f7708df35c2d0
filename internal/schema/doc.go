// Package schema makes one object out of a configuration type: a Go struct's
// tags give its decoder, defaults, JSON Schema and reference table.
package schema
