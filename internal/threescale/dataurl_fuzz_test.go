package threescale

import (
	"encoding/base64"
	"testing"
)

// A data URL gives what was put into it.
func FuzzDataURL(f *testing.F) {
	for _, s := range []string{"", "data:,x", "data:text/plain;name=a;base64,eA==", "data:a%2", "data:;base64,%%", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = DataURL(text)
		got, err := DataURL("data:application/x-pem-file;name=a.pem;base64," + base64.StdEncoding.EncodeToString([]byte(text)))
		if err != nil || got != text {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	})
}
