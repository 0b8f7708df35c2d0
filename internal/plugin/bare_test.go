package plugin

import (
	"context"
	"errors"
	"net/url"
	"testing"
)

func TestBare(t *testing.T) {
	cause := context.DeadlineExceeded
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{cause, cause.Error()},
		{&url.Error{Op: "Get", URL: "http://u:secret@h:1/secret?secret#secret", Err: cause}, "h:1: " + cause.Error()},
		{&url.Error{Op: "Get", URL: "secret", Err: cause}, cause.Error()},
		{&url.Error{Op: "parse", URL: "http://u:secret@[", Err: cause}, cause.Error()},
	} {
		got := Bare(c.err)
		if c.err == nil {
			if got != nil {
				t.Error(got)
			}
			continue
		}
		if got.Error() != c.want || !errors.Is(got, cause) {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

func TestBareURL(t *testing.T) {
	for raw, want := range map[string]string{
		"http://u:secret@h:1/a%2Fb?secret#secret": "http://h:1/a%2Fb", "https://h": "https://h", "http://u:se cret@[": "a URL that cannot be read", "mailto:secret": "mailto:",
	} {
		if got := BareURL(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
