package threescale

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
)

// DataURL is what a data URL (RFC 2397) holds.
func DataURL(text string) (string, error) {
	rest, ok := strings.CutPrefix(text, "data:")
	head, body, comma := strings.Cut(rest, ",")
	if !ok || !comma {
		return "", errors.New("it is no data URL")
	}
	if !strings.HasSuffix(head, ";base64") {
		return url.PathUnescape(body)
	}
	out, err := base64.StdEncoding.DecodeString(strings.TrimSpace(body))
	return string(out), err
}
