package standalone

import (
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
	"weir/internal/threescale/threescaletest"
)

func TestCostsNothing(t *testing.T) {
	ph, err := Policy.Compile([]byte(`{"max_logs":1,"anything":{}}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	if ph.Rewrite != nil || ph.Access != nil || ph.Content != nil || ph.BeforeProxy != nil || ph.Header != nil || ph.Body != nil || ph.Log != nil {
		t.Error("it has phases")
	}
}

func TestProxies(t *testing.T) {
	threescaletest.Compile(t, threescaletest.Of(t, nil), Policy, `{"proxy":true}`)
}
