package threescale

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"weir/internal/model"
)

func TestRetryCases(t *testing.T) {
	for text, want := range map[string]*model.RetryOn{
		"": nil, "  ": nil,
		"error timeout":           {Error: true, Timeout: true},
		"error http_503 http_504": {Error: true, Statuses: []int{503, 504}},
		"error off":               {},
		"non_idempotent http_429": {NonIdempotent: true, Statuses: []int{429}},
	} {
		var log strings.Builder
		if got := retryCases(text, slog.New(slog.NewTextHandler(&log, nil))); !reflect.DeepEqual(got, want) || log.Len() > 0 {
			t.Errorf("%q: %+v %s", text, got, log.String())
		}
	}
	var log strings.Builder
	if got := retryCases("timeout invalid_header", slog.New(slog.NewTextHandler(&log, nil))); !got.Timeout || !strings.Contains(log.String(), "invalid_header") {
		t.Errorf("%+v %s", got, log.String())
	}
}
