package limitcount

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/redisclient/redistest"
)

// redisConf is limit-count's configuration for a Redis, with more properties.
func redisConf(s *redistest.Server, more string) string {
	return fmt.Sprintf(`{"count":2,"time_window":60,"policy":"redis","redis_host":"%s","redis_port":%d,"redis_timeout":20000%s}`, s.Host, s.Port, more)
}

func clusterConf(s *redistest.Server, more string) string {
	return fmt.Sprintf(`{"count":2,"time_window":60,"policy":"redis-cluster","redis_cluster_nodes":["%s"],"redis_cluster_name":"c","redis_timeout":20000%s}`, s.Addr(), more)
}

func sentinelConf(s *redistest.Server, more string) string {
	return fmt.Sprintf(`{"count":2,"time_window":60,"policy":"redis-sentinel","redis_sentinels":[{"host":"%s","port":%d}],"redis_master_name":"mymaster",`+
		`"redis_connect_timeout":20000,"redis_read_timeout":20000%s}`, s.Host, s.Port, more)
}

// real compiles with the real clock.
func real(t *testing.T, conf string) plugin.Phases {
	t.Helper()
	env := plugintest.Env(time.Now)
	ph, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(env.Keep.Release)
	return ph
}

func TestRedis(t *testing.T) {
	single, cluster, master := redistest.Start(t), redistest.Cluster(t), redistest.Start(t)
	sentinel := redistest.Sentinel(t, master, "mymaster")
	for _, window := range []string{"fixed", "sliding"} {
		more := `,"window_type":"` + window + `"`
		for _, conf := range []string{redisConf(single, more), clusterConf(cluster, more), sentinelConf(sentinel, more)} {
			ph := real(t, conf)
			for i, want := range []string{"1", "0", "refused", "refused"} {
				if got := remaining(ph); got != want {
					t.Errorf("%s: %d: %s remain, want %s", conf, i, got, want)
				}
			}
		}
	}
	c := single.Client(0)
	defer c.Close()
	keys, err := c.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 2 {
		t.Fatalf("%v, %v", keys, err)
	}
	for _, k := range keys {
		if !strings.HasPrefix(k, "plugin-limit-count:v1:") {
			t.Errorf("key %s", k)
		}
		if ttl := c.TTL(t.Context(), k).Val(); ttl <= 0 || ttl > 2*time.Minute {
			t.Errorf("key %s lives %v", k, ttl)
		}
	}
}

func TestRedisWindow(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client(0)
	defer c.Close()
	ph := real(t, redisConf(server, ""))
	remaining(ph)
	key := c.Keys(t.Context(), "*").Val()[0]
	if got := c.Get(t.Context(), key).Val(); got != "1" {
		t.Errorf("the counter holds %s", got)
	}
	// The window goes by.
	c.Del(t.Context(), key)
	if got := remaining(ph); got != "1" {
		t.Errorf("%s remain in the next window", got)
	}
	// The window of a sliding counter goes by halfway.
	ph = real(t, redisConf(server, `,"window_type":"sliding"`))
	remaining(ph)
	for _, k := range c.Keys(t.Context(), "*sliding*").Val() {
		id, err := c.HGet(t.Context(), k, "id").Int64()
		if err != nil {
			t.Fatal(err)
		}
		c.HSet(t.Context(), k, "id", id-1, "n", 1)
	}
	// One request of the window before counts at most once, at least a bit.
	if got := remaining(ph); got != "0" && got != "1" {
		t.Errorf("%s remain beside what is left of the window before", got)
	}
}

func TestRedisExact(t *testing.T) {
	server := redistest.Start(t)
	for _, more := range []string{``, `,"window_type":"sliding"`} {
		conf := strings.Replace(redisConf(server, more), `"count":2`, `"count":100`, 1)
		ph := real(t, conf)
		var passed atomic.Int64
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if plugintest.Send(ph, plugintest.NewCtx("/")) == nil {
					passed.Add(1)
				}
			})
		}
		wg.Wait()
		if n := passed.Load(); n != 100 {
			t.Errorf("%s: %d passed", conf, n)
		}
	}
}

func TestRedisGone(t *testing.T) {
	server := redistest.Start(t)
	server.Stop()
	for more, want := range map[string]string{
		``:                          `{"error_msg":"failed to limit count"}` + "\n",
		`,"window_type":"sliding"`:  `{"error_msg":"failed to limit count"}` + "\n",
		`,"allow_degradation":true`: "",
		`,"allow_degradation":true,"window_type":"sliding"`: "",
	} {
		ctx := plugintest.NewCtx("/")
		reply := plugintest.Send(real(t, redisConf(server, more)), ctx)
		got := ""
		if reply != nil {
			got = string(reply.Body)
		}
		if got != want || reply != nil && reply.Status != 500 || len(ctx.ReplyHeader()) != 0 {
			t.Errorf("%s: %q with %v, want %q", more, got, ctx.ReplyHeader(), want)
		}
	}
}

// TestSync: requests are counted here and told to Redis together.
func TestSync(t *testing.T) {
	server, cluster := redistest.Start(t), redistest.Cluster(t)
	master := redistest.Start(t)
	sentinel := redistest.Sentinel(t, master, "mymaster")
	for _, window := range []string{"fixed", "sliding"} {
		more := `,"sync_interval":0.1,"window_type":"` + window + `"`
		for _, conf := range []string{redisConf(server, more), clusterConf(cluster, more), sentinelConf(sentinel, more)} {
			ph := real(t, conf)
			for i, want := range []string{"1", "0", "refused"} {
				if got := remaining(ph); got != want {
					t.Errorf("%s: %d: %s remain, want %s", conf, i, got, want)
				}
			}
		}
	}
	// Another gateway learns of it.
	await(t, func() bool {
		return remaining(real(t, redisConf(server, `,"sync_interval":0.1,"window_type":"fixed"`))) == "refused"
	})
}

// await waits for what happens by itself soon.
func await(t *testing.T, f func() bool) {
	t.Helper()
	for range 500 {
		if f() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("it does not happen")
}

// TestSyncAtEnd: what was not told yet is told when the configuration goes.
func TestSyncAtEnd(t *testing.T) {
	server := redistest.Start(t)
	conf := redisConf(server, `,"sync_interval":50`)
	env := plugintest.Env(time.Now)
	ph, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		t.Fatal(err)
	}
	remaining(ph)
	remaining(ph)
	env.Keep.Release()
	if got := remaining(real(t, conf)); got != "refused" {
		t.Errorf("%s remain", got)
	}
}

// TestSyncAlone: while Redis does not answer, the process counts for itself.
func TestSyncAlone(t *testing.T) {
	server := redistest.Start(t)
	server.Stop()
	ph := real(t, redisConf(server, `,"sync_interval":0.1`))
	for i, want := range []string{"1", "0", "refused"} {
		if got := remaining(ph); got != want {
			t.Errorf("%d: %s remain, want %s", i, got, want)
		}
	}
}

// TestSyncParallel: between two exchanges nothing is admitted that was not left.
func TestSyncParallel(t *testing.T) {
	server := redistest.Start(t)
	conf := strings.Replace(redisConf(server, `,"sync_interval":0.1`), `"count":2`, `"count":100`, 1)
	ph := real(t, conf)
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			if plugintest.Send(ph, plugintest.NewCtx("/")) == nil {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	if n := passed.Load(); n != 100 {
		t.Errorf("%d passed", n)
	}
}

// TestRedisSilent: a Redis that takes connections and says nothing holds every
// request for the time-out and no longer, and however many there are, no more
// connections than a client may open.
func TestRedisSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var taken atomic.Int64
	var accepting sync.WaitGroup
	accepting.Go(func() {
		var open []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			taken.Add(1)
			open = append(open, c)
		}
		for _, c := range open {
			c.Close()
		}
	})
	defer accepting.Wait()
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	const requests, mostOpen = 600, 256
	for degrade, refused := range map[string]int64{"false": requests, "true": 0} {
		ph := real(t, fmt.Sprintf(`{"count":1,"time_window":60,"policy":"redis","redis_host":"127.0.0.1","redis_port":%d,"redis_timeout":100,`+
			`"redis_keepalive_pool":10,"allow_degradation":%s}`, port, degrade))
		var failed atomic.Int64
		var wg sync.WaitGroup
		for range requests {
			wg.Go(func() {
				if reply := plugintest.Send(ph, plugintest.NewCtx("/")); reply != nil {
					failed.Add(1)
				}
			})
		}
		wg.Wait()
		if failed.Load() != refused {
			t.Errorf("allow_degradation %s: %d refused, want %d", degrade, failed.Load(), refused)
		}
	}
	// Those that a time-out has closed are opened anew for requests that waited.
	if n := taken.Load(); n > 2*2*mostOpen {
		t.Errorf("%d connections for two times %d requests", n, requests)
	}
}
