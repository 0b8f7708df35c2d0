package threescale

import (
	"log/slog"
	"strconv"
	"strings"

	"weir/internal/model"
)

// retryCases reads the cases of nginx's proxy_next_upstream; nil: there are none,
// and its default is meant.
func retryCases(text string, log *slog.Logger) *model.RetryOn {
	cases := strings.Fields(text)
	if len(cases) == 0 {
		return nil
	}
	on := new(model.RetryOn)
	for _, k := range cases {
		switch k {
		case "error":
			on.Error = true
		case "timeout":
			on.Timeout = true
		case "non_idempotent":
			on.NonIdempotent = true
		case "off":
			return new(model.RetryOn)
		case "http_403", "http_404", "http_429", "http_500", "http_502", "http_503", "http_504":
			n, err := strconv.Atoi(k[len("http_"):])
			if err == nil {
				on.Statuses = append(on.Statuses, n)
			}
		default: // invalid_header among them: who breaks the protocol is not asked again
			log.Warn("a case of APICAST_UPSTREAM_RETRY_CASES is not served", "case", k)
		}
	}
	return on
}
