package plugin

import (
	"errors"
	"fmt"
	"net/url"
)

// Bare is an error of an HTTP client that names the host alone of the URL: its
// user, its path and its query may be secret, and errors are logged. The cause is
// kept.
func Bare(err error) error {
	e, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	u, wrong := url.Parse(e.URL)
	if wrong != nil || u.Host == "" {
		return e.Err
	}
	return fmt.Errorf("%s: %w", u.Host, e.Err)
}

// BareURL is a URL without its user and its query, for the log.
func BareURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "a URL that cannot be read"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
