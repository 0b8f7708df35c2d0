package prometheus

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"weir/internal/meter"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func TestStream(t *testing.T) {
	keeper := new(plugin.Keeper)
	defer keeper.Close()
	env := plugintest.Env(time.Now)
	env.Keep, env.Meter = keeper.Uses(), meter.New(0)
	defer env.Keep.Release()
	ph, err := Stream.Compile([]byte(`{"prefer_name":true}`), env)
	if err != nil {
		t.Fatal(err)
	}
	s := &plugin.StreamCtx{Listener: "0.0.0.0:9100"}
	s.Route = &plugin.Route{ID: "1", Name: "mqtt"}
	s.Sent = plugin.Outcome{Status: 200, Tries: []plugin.Try{{Addr: "127.0.0.1:1"}, {Addr: "127.0.0.1:2"}}}
	ph.Log(s)
	s.Sent.Status = 502
	ph.Log(s)
	var b bytes.Buffer
	if err := env.Meter.Expose(&b, "apisix_"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`apisix_stream_connection_total{route="mqtt"} 2`,
		`apisix_stream_status{code="200",listen_addr="0.0.0.0:9100",node="127.0.0.1:2"} 1`,
		`apisix_stream_status{code="502",listen_addr="0.0.0.0:9100",node="127.0.0.1:2"} 1`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}
