package plugin_test

import (
	"errors"
	"testing"

	"weir/internal/plugin"
)

func TestFiles(t *testing.T) {
	var f plugin.Files
	opened := ""
	bad := errors.New("no")
	removeA := f.Add(func() error { opened += "a"; return nil })
	f.Add(func() error { opened += "b"; return bad })
	if err := f.Reopen(); !errors.Is(err, bad) || len(opened) != 2 {
		t.Error(err, opened)
	}
	removeA()
	removeA()
	opened = ""
	if f.Reopen(); opened != "b" {
		t.Error(opened)
	}
}
