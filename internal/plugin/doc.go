// Package plugin is the contract between the gateway and its plugins.
//
// A plugin is a value: a Spec made once by Define. Configuration time and
// request time are different functions. Compile runs once per configuration
// change, may be slow and may fail; the phase functions it returns run on every
// request, cannot fail, and see only what Compile prepared.
package plugin
