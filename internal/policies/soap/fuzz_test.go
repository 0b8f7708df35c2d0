package soap

import (
	"mime"
	"strings"
	"testing"
)

// FuzzParameter: where package mime finds an action, it is found here, too.
func FuzzParameter(f *testing.F) {
	for _, s := range []string{
		`application/soap+xml; charset=utf-8; action="urn:a;b"`, `application/soap+xml;action=a`, `Application/SOAP+XML ; Action = "a" ; x`, `application/soap+xml;a="x;action=y"`, `text/xml;action=a`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, contentType string) {
		got := parameter(contentType)
		media, parameters, err := mime.ParseMediaType(contentType)
		want := parameters["action"]
		if err != nil || media != "application/soap+xml" || strings.ContainsAny(contentType, `\*`) {
			return
		}
		if got != strings.TrimSpace(want) {
			t.Errorf("%q: %q, want %q", contentType, got, want)
		}
	})
}
