package liquidcontextdebug

import (
	"encoding/json"
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	ph, err := Policy.Compile([]byte(`{}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	c := plugintest.NewCtx("/a?b=c", [2]string{"Custom", "x"})
	threescaletest.Of(t, nil).Begin(c)
	defer threescale.End(c)
	r := threescale.Of(c)
	r.Credentials.UserKey = "key"
	r.Usage.Add("hits", 2)
	r.Set("mine", map[string]any{"n": 1.5})
	r.Set("host", "not this")
	reply := ph.Content(c)
	if reply == nil || reply.Status != 200 || reply.Body[len(reply.Body)-1] != '\n' {
		t.Fatalf("%+v", reply)
	}
	var got struct {
		URI, Host, Scheme string
		Method            string            `json:"http_method"`
		Headers           map[string]string `json:"headers"`
		Original          struct {
			Headers                map[string]string
			Path, Query, URI, Host string
		} `json:"original_request"`
		Service struct {
			ID    string
			Hosts []string
		}
		Credentials map[string]string
		Usage       struct{ Deltas map[string]int }
		JWT         any
		Mine        struct{ N float64 }
	}
	if err := json.Unmarshal(reply.Body, &got); err != nil {
		t.Fatalf("%v: %s", err, reply.Body)
	}
	if got.URI != "/a" || got.Host != "example.com" || got.Scheme != "http" || got.Method != "GET" || got.Headers["custom"] != "x" ||
		got.Original.Path != "/a" || got.Original.Query != "b=c" || got.Service.ID != "42" || got.Service.Hosts[0] != "example.com" ||
		got.Credentials["user_key"] != "key" || got.Usage.Deltas["hits"] != 2 || got.JWT != nil || got.Mine.N != 1.5 {
		t.Errorf("%s", reply.Body)
	}
	if c.To.Upstream, err = plugintest.Env(time.Now).Upstream(nil); err != nil {
		t.Fatal(err)
	}
	if ph.Content(c) != nil {
		t.Error("it answers for an upstream that was chosen before")
	}
}
