package clickhouselogger

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// clickhouse starts a server that reports what it gets.
func clickhouse(t *testing.T) (url string, got chan string) {
	got = make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		h := r.Header
		got <- fmt.Sprintf("%s %s %s %s/%s@%s %s", r.Method, r.RequestURI, h.Get("Content-Type"),
			h.Get("X-ClickHouse-User"), h.Get("X-ClickHouse-Key"), h.Get("X-ClickHouse-Database"), b)
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

func compiled(t *testing.T, conf string) plugin.Phases {
	t.Helper()
	keeper := new(plugin.Keeper)
	env := plugintest.Env(time.Now)
	env.Keep = keeper.Uses()
	p, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.Keep.Release(); keeper.Close() })
	t.Cleanup(p.Close)
	return p
}

const account = `,"user":"u","password":"p","database":"d","logtable":"t","log_format":{"a":"$remote_addr"}`

func TestInsert(t *testing.T) {
	url, got := clickhouse(t)
	for _, c := range []struct {
		conf  string
		calls int
		want  string
	}{
		{`{"endpoint_addr":"` + url + `/in?x=1","batch_max_size":1` + account + `}`, 1, `POST /in?x=1 application/json u/p@d INSERT INTO t FORMAT JSONEachRow {"a":"192.0.2.1"}`},
		{`{"endpoint_addrs":["` + url + `"],"batch_max_size":2` + account + `}`, 2, `POST / application/json u/p@d INSERT INTO t FORMAT JSONEachRow {"a":"192.0.2.1"} {"a":"192.0.2.1"}`},
	} {
		p := compiled(t, c.conf)
		for range c.calls {
			r := plugintest.NewCtx("/")
			r.Client, r.Route = "192.0.2.1", nil
			p.Log(r)
		}
		if text := <-got; text != c.want {
			t.Errorf("%s\nwant %s", text, c.want)
		}
	}
}

// TestAnyServer: batches go to every one of several.
func TestAnyServer(t *testing.T) {
	one, first := clickhouse(t)
	two, second := clickhouse(t)
	p := compiled(t, `{"endpoint_addrs":["`+one+`","`+two+`"],"batch_max_size":1`+account+`}`)
	seen := map[string]bool{}
	for range 200 {
		p.Log(plugintest.NewCtx("/"))
		select {
		case <-first:
			seen["first"] = true
		case <-second:
			seen["second"] = true
		}
		if len(seen) == 2 {
			return
		}
	}
	t.Errorf("only %v", seen)
}

func TestConfig(t *testing.T) {
	const one = `value should match only one schema, but matches `
	for conf, want := range map[string]string{
		`{"user":"u","password":"p","database":"d","logtable":"t"}`:                                                          one + "none",
		`{"endpoint_addr":"http://a","endpoint_addrs":["http://a"],"user":"u","password":"p","database":"d","logtable":"t"}`: one + "both schemas 1 and 2",
		`{"endpoint_addr":"a","user":"u","password":"p","database":"d","logtable":"t"}`:                                      `property "endpoint_addr" validation failed`,
		`{"endpoint_addrs":[],"user":"u","password":"p","database":"d","logtable":"t"}`:                                      `property "endpoint_addrs" validation failed: expect array to have at least 1 items`,
		`{"endpoint_addrs":["a"],"user":"u","password":"p","database":"d","logtable":"t"}`:                                   `property "endpoint_addrs" validation failed: failed to validate item 1`,
	} {
		if _, err := Plugin.Compile([]byte(conf), plugintest.Env(time.Now)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", conf, err)
		}
	}
}
