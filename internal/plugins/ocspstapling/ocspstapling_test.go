package ocspstapling

import (
	"testing"

	"weir/internal/plugin/plugintest"
)

func Test(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "nothing", Config: `{}`, Requests: []plugintest.Request{{}}},
		{Name: "no object", Config: `1`, Invalid: "wrong type: expected object, got number"},
	})
}
