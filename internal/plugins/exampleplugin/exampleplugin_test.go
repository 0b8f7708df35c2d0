package exampleplugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func TestConfig(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "least", Config: `{"i":0}`, Requests: []plugintest.Request{{Answer: plugintest.Answer{Body: "hello"}, Body: "hello"}}},
		{Name: "all", Config: `{"i":1.5,"s":"a","t":[1,"b",{}]}`, Requests: []plugintest.Request{{}}},
		{Name: "no i", Config: `{"s":"a"}`, Invalid: `property "i" is required`},
		{Name: "negative", Config: `{"i":-1}`, Invalid: `property "i" validation failed: expected -1 to be at least 0`},
		{Name: "no item", Config: `{"i":1,"t":[]}`, Invalid: `property "t" validation failed: expect array to have at least 1 items`},
		{Name: "port", Config: `{"i":1,"port":"80"}`, Invalid: `property "port" validation failed: wrong type: expected integer, got string`},
	})
}

func TestPhasesAreReported(t *testing.T) {
	said := new(bytes.Buffer)
	env := plugintest.Env(time.Now)
	env.Owner, env.Log = "routes/1", slog.New(slog.NewTextHandler(said, nil))
	p, err := Plugin.Compile([]byte(`{"i":1}`), env)
	if err != nil {
		t.Fatal(err)
	}
	c := plugintest.NewCtx("/")
	p.Rewrite(c)
	p.Access(c)
	p.Header(c)
	if got := string(p.Body(c).Write([]byte("x"), true)); got != "x" {
		t.Error(got)
	}
	p.Log(c)
	for _, phase := range []string{"rewrite", "access", "header_filter", "body_filter", "delayed_body_filter", "log"} {
		if !strings.Contains(said.String(), `"plugin `+phase+` phase" plugin=example-plugin owner=routes/1 conf="{\"i\":1}"`) {
			t.Errorf("%s is not in the log:\n%s", phase, said)
		}
	}
}

// A node is an upstream and the document that it was made of.
type node struct {
	raw    string
	closed bool
}

func (n *node) Close() { n.closed = true }

func TestElsewhere(t *testing.T) {
	up := new(node)
	env := plugintest.Env(time.Now)
	env.Upstream = func(raw json.RawMessage) (plugin.Upstream, error) {
		up.raw = string(raw)
		return up, nil
	}
	p, err := Plugin.Compile([]byte(`{"i":1,"ip":"127.0.0.2","port":1980}`), env)
	if err != nil {
		t.Fatal(err)
	}
	c := plugintest.NewCtx("/")
	if reply := p.Access(c); reply != nil || c.To.Upstream != up || up.raw != `{"type":"roundrobin","nodes":[{"host":"127.0.0.2","port":1980,"weight":1}]}` {
		t.Errorf("%v %s", reply, up.raw)
	}
	if p.Close(); !up.closed {
		t.Error("the upstream stays")
	}

	env.Upstream = func(json.RawMessage) (plugin.Upstream, error) { return nil, errors.New("no such port") }
	if p, err = Plugin.Compile([]byte(`{"i":1,"ip":"127.0.0.2","port":0}`), env); err != nil {
		t.Fatal(err)
	}
	if reply := p.Access(c); reply == nil || reply.Status != 500 || string(reply.Body) != "no such port" {
		t.Errorf("%+v", reply)
	}
}

func TestHello(t *testing.T) {
	control := Plugin.Controls()[0]
	if control.Method != "GET" || control.Path != "/v1/plugin/example-plugin/hello" {
		t.Errorf("%+v", control)
	}
	for query, want := range map[string]string{"": "world\n", "json": `{"msg":"world"}` + "\n", "a=%zz&json": `{"msg":"world"}` + "\n"} {
		if got := control.Answer(query); got.Status != 200 || string(got.Body) != want {
			t.Errorf("%q: %d %s", query, got.Status, got.Body)
		}
	}
}

func TestMetadata(t *testing.T) {
	for raw, want := range map[string]string{`{"ikey":1,"skey":"a"}`: "", `{"skey":"a"}`: `property "ikey" is required`, `{"ikey":-1,"skey":"a"}`: `property "ikey" validation failed`} {
		err := Plugin.MetadataSchema().Decode([]byte(raw), new(Metadata))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
