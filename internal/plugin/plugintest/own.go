package plugintest

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"weir/internal/plugin"
)

// Own checks that the functions of the phases are written in the plugin's package:
// a profile knows the plugin by that. What loggers share to see bodies (package
// logentry) is the exception; a profile has it as a part of its own.
func Own(t testing.TB, spec plugin.Spec, ph plugin.Phases) {
	t.Helper()
	v := reflect.ValueOf(ph)
	for i := range v.NumField() {
		f := v.Field(i)
		if f.IsNil() || v.Type().Field(i).Name == "Close" {
			continue
		}
		name := runtime.FuncForPC(f.Pointer()).Name()
		if !strings.HasPrefix(name, spec.Package()+".") && !strings.HasPrefix(name, "weir/internal/logentry.") {
			t.Errorf("%s: the function of %s is %s: a profile would not say that it is the plugin's", spec.Name, v.Type().Field(i).Name, name)
		}
	}
}
