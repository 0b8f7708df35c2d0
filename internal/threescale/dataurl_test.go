package threescale

import "testing"

func TestDataURL(t *testing.T) {
	for url, want := range map[string]string{
		"data:text/plain;base64,YSBi":                            "a b",
		"data:application/x-x509-ca-cert;name=a.crt;base64,YSBi": "a b",
		"data:,a%20b+":  "a b+",
		"data:;base64,": "",
	} {
		if got, err := DataURL(url); err != nil || got != want {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
	for _, url := range []string{"", "/etc/passwd", "data:text/plain", "data:;base64,*", "data:,%zz"} {
		if got, err := DataURL(url); err == nil {
			t.Errorf("%s: %q", url, got)
		}
	}
}
