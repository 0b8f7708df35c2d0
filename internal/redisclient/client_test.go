package redisclient_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/redisclient"
	"weir/internal/redisclient/redistest"
	"weir/internal/schema"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type config struct {
	Policy string `json:"policy" schema:"default=local"`
	redisclient.Config
	redisclient.SentinelConfig
}

func (*config) Constraints() []schema.Constraint {
	return []schema.Constraint{redisclient.Branches(true, `, "key_ttl": {"type": "integer", "default": 3600}`)}
}

func decode(t *testing.T, doc string) *config {
	t.Helper()
	c := new(config)
	if err := schema.Of[config]().Decode([]byte(doc), c); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return c
}

func TestSchema(t *testing.T) {
	s := schema.Of[config]()
	for doc, want := range map[string]string{
		`{}`:                 "",
		`{"redis_port":"x"}`: "",
		`{"policy":"redis"}`: "then clause did not match",
		`{"policy":"redis","redis_host":"127.0.0.1"}`:                                                                   "",
		`{"policy":"redis","redis_host":"127.0.0.1","redis_port":0}`:                                                    "then clause did not match",
		`{"policy":"redis-cluster"}`:                                                                                    "else clause did not match",
		`{"policy":"redis-cluster","redis_cluster_nodes":["a:1"],"redis_cluster_name":"c"}`:                             "",
		`{"policy":"redis-sentinel","redis_sentinels":[{"host":"h1","port":1}],"redis_master_name":"m"}`:                "",
		`{"policy":"redis-sentinel","redis_sentinels":[{"host":"h1","port":1,"x":1}],"redis_master_name":"m"}`:          "else clause did not match",
		`{"policy":"redis-sentinel","redis_sentinels":[{"host":"$env://H1","port":1}],"redis_master_name":"$env://NM"}`: "",
	} {
		got := ""
		if err := s.Check([]byte(doc)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", doc, got, want)
		}
	}
	c := decode(t, `{"policy":"redis","redis_host":"127.0.0.1"}`)
	if c.Port != 6379 || c.Timeout != 1000 || c.KeepaliveTimeout != 10000 || c.KeepalivePool != 100 {
		t.Errorf("defaults %+v", c.Config)
	}
	if got := strings.Join(s.Secrets(), " "); got != "redis_password sentinel_password" {
		t.Errorf("secrets %s", got)
	}
}

var addScript = redisclient.NewScript(`return {redis.call('INCRBY', KEYS[1], ARGV[1]), 7}`)

func open(t *testing.T, c *config) (*redisclient.Client, func()) {
	t.Helper()
	env := plugintest.Env(time.Now)
	return redisclient.Open(env, c.Policy, &c.Config, &c.SentinelConfig), env.Keep.Release
}

func TestRun(t *testing.T) {
	plain := redistest.Start(t, "--requirepass", "secret")
	cluster := redistest.Cluster(t)
	master := redistest.Start(t)
	sentinel := redistest.Sentinel(t, master, "mymaster")
	for _, c := range []*config{
		{Policy: "redis", Config: redisclient.Config{
			Host: plain.Host, Port: plain.Port, Username: "default", Password: "secret", Database: 3, Timeout: 5000, KeepaliveTimeout: 1000, KeepalivePool: 2,
		}},
		{Policy: "redis", Config: redisclient.Config{
			Host: plain.Host, Port: plain.Port, Password: "secret", Timeout: 5000, KeepaliveTimeout: 1000, KeepalivePool: 2,
		}},
		{Policy: "redis-cluster", Config: redisclient.Config{ClusterNodes: []string{"127.0.0.1:1", cluster.Addr()}, Timeout: 5000}},
		{
			Policy: "redis-sentinel", Config: redisclient.Config{Database: 2},
			SentinelConfig: redisclient.SentinelConfig{
				Sentinels:  []redisclient.Address{{Host: sentinel.Host, Port: sentinel.Port}},
				MasterName: "mymaster", Role: "master", ConnectTimeout: 5000, ReadTimeout: 5000,
			},
		},
	} {
		client, release := open(t, c)
		for i := range 3 {
			got, err := client.Run(redisclient.Call{Script: addScript, Key: "k", Args: []any{2}})
			if err != nil || len(got) != 2 || got[0] != int64(2*(i+1)) || got[1] != 7 {
				t.Fatalf("%s: %v, %v", c.Policy, got, err)
			}
		}
		results := client.RunAll([]redisclient.Call{{Script: addScript, Key: "a", Args: []any{1}}, {Script: addScript, Key: "b", Args: []any{"x"}}, {Script: addScript, Key: "k", Args: []any{1}}})
		if results[0].Err != nil || results[0].Values[0] != 1 || results[1].Err == nil || results[2].Values[0] != 7 {
			t.Errorf("%s: together %v", c.Policy, results)
		}
		for range 500 {
			if !client.Later(redisclient.Job{Script: addScript, Key: "later", Args: []any{1}}) {
				t.Error("too many jobs")
			}
		}
		release()
		again, release := open(t, c)
		if got, err := again.Run(redisclient.Call{Script: addScript, Key: "later", Args: []any{0}}); err != nil || got[0] != 500 {
			t.Errorf("%s: %v, %v after 500 jobs", c.Policy, got, err)
		}
		release()
	}
}

// TestScriptForgotten: a Redis that has lost its scripts is given them again.
func TestScriptForgotten(t *testing.T) {
	server := redistest.Start(t)
	client, release := open(t, &config{Policy: "redis", Config: redisclient.Config{Host: server.Host, Port: server.Port, Timeout: 5000, KeepalivePool: 2}})
	defer release()
	c := server.Client(0)
	defer c.Close()
	for i := range 3 {
		if err := c.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		r := client.RunAll([]redisclient.Call{{Script: addScript, Key: "k", Args: []any{1}}})[0]
		if r.Err != nil || r.Values[0] != int64(i+1) {
			t.Errorf("%v, %v", r.Values, r.Err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "secret")
	configs := []*config{
		{Policy: "redis", Config: redisclient.Config{Host: "127.0.0.1", Port: 1, Timeout: 200, KeepalivePool: 1}},
		{Policy: "redis", Config: redisclient.Config{Host: server.Host, Port: server.Port, Password: "wrong", Timeout: 2000, KeepalivePool: 1}},
		{Policy: "redis-cluster", Config: redisclient.Config{ClusterNodes: []string{"127.0.0.1:1", "127.0.0.1:2"}, Timeout: 200}},
		{Policy: "redis-sentinel", SentinelConfig: redisclient.SentinelConfig{
			Sentinels: []redisclient.Address{{Host: "127.0.0.1", Port: 1}}, MasterName: "m", ConnectTimeout: 200, ReadTimeout: 200,
		}},
	}
	for _, c := range configs {
		client, release := open(t, c)
		if got, err := client.Run(redisclient.Call{Script: addScript, Key: "k", Args: []any{1}}); err == nil {
			t.Errorf("%s: got %v from nobody", c.Policy, got)
		}
		client.Later(redisclient.Job{Script: addScript, Key: "k", Args: []any{1}})
		release()
	}
}

func TestShared(t *testing.T) {
	var keeper plugin.Keeper
	env := plugintest.Env(time.Now)
	c := &config{Policy: "redis", Config: redisclient.Config{Host: "127.0.0.1", Port: 1, Timeout: 100, KeepalivePool: 1}}
	env.Keep = keeper.Uses()
	one := redisclient.Open(env, c.Policy, &c.Config, nil)
	two := redisclient.Open(env, c.Policy, &c.Config, nil)
	other := *c
	other.Database = 1
	if three := redisclient.Open(env, other.Policy, &other.Config, nil); one != two || three == one || keeper.Len() != 2 {
		t.Errorf("%d clients for two configurations", keeper.Len())
	}
	env.Keep.Release()
}

// TestParallel: connections are bounded, all callers are served.
func TestParallel(t *testing.T) {
	server := redistest.Start(t)
	client, release := open(t, &config{Policy: "redis", Config: redisclient.Config{Host: server.Host, Port: server.Port, Timeout: 20_000, KeepalivePool: 10}})
	defer release()
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			if _, err := client.Run(redisclient.Call{Script: addScript, Key: "k", Args: []any{1}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, err := client.Run(redisclient.Call{Script: addScript, Key: "k", Args: []any{0}}); err != nil || got[0] != 1000 {
		t.Errorf("%v, %v", got, err)
	}
}
