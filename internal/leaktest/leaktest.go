// Package leaktest ends the tests of a package: they fail if a goroutine is left.
package leaktest

import (
	"os"
	"testing"

	"github.com/dlclark/regexp2"
	"go.uber.org/goleak"
)

// Main runs the tests of m and exits. The clock by which backtracking patterns are
// bounded runs on for a second after the last of them and is stopped, it is no leak.
func Main(m *testing.M) {
	code := m.Run()
	regexp2.StopTimeoutClock()
	if err := goleak.Find(); err != nil && code == 0 {
		os.Stderr.WriteString("goroutines are left: " + err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}
