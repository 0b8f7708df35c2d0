package clientcontrol

import (
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
	"weir/internal/wire"
)

func Test(t *testing.T) {
	for _, c := range []struct {
		conf   string
		length int64
		status int // 0: goes on
		limit  int64
	}{
		{`{}`, 1000, 0, 0},
		{`{"max_body_size":5}`, 5, 0, 5},
		{`{"max_body_size":5}`, 6, 413, 5},
		{`{"max_body_size":5}`, wire.Chunked, 0, 5},
		{`{"max_body_size":0}`, 1000, 0, -1},
	} {
		ph, err := Plugin.Compile([]byte(c.conf), plugintest.Env(time.Now))
		if err != nil {
			t.Fatal(err)
		}
		ctx := plugintest.NewCtx("/")
		ctx.Request.Length = c.length
		status := 0
		if r := plugintest.Send(ph, ctx); r != nil {
			status = r.Status
		}
		if status != c.status || ctx.MaxBody != c.limit {
			t.Errorf("%s, %d bytes: %d, limit %d", c.conf, c.length, status, ctx.MaxBody)
		}
		if n := testing.AllocsPerRun(100, func() { plugintest.Send(ph, ctx) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "negative", Config: `{"max_body_size":-1}`, Invalid: `property "max_body_size" validation failed: expected -1 to be at least 0`},
		{Name: "type", Config: `{"max_body_size":"1"}`, Invalid: `property "max_body_size" validation failed: wrong type: expected integer, got string`},
	})
}
