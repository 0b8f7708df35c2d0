package onfailed

import (
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	for config, want := range map[string]int{`{}`: 503, `{"error_status_code":401}`: 401, `{"error_status_code":"500"}`: 500} {
		env := plugintest.Env(time.Now)
		p := threescaletest.Of(t, nil)
		env.Product = p
		for _, config := range []string{config, `{"error_status_code":418}`} {
			if _, err := Policy.Compile([]byte(config), env); err != nil {
				t.Fatal(err)
			}
		}
		if p.Refusal() != nil {
			t.Errorf("%s: a product that works refuses", config)
		}
		p.Broken = true
		if reply := p.Refusal(); reply == nil || reply.Status != want || reply.Body != nil {
			t.Errorf("%s: %+v", config, reply)
		}
	}
}

func TestRefused(t *testing.T) {
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "below", Config: `{"error_status_code":99}`, Invalid: "99"},
		{Name: "above", Config: `{"error_status_code":700}`, Invalid: "700"},
	})
}
