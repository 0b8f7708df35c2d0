package expr

import (
	"os"
	"testing"

	"github.com/dlclark/regexp2"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	regexp2.StopTimeoutClock()
	if err := goleak.Find(); err != nil && code == 0 {
		os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}
