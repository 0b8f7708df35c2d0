package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/plugins/limitcount"
	"weir/internal/redisclient/redistest"
)

// TestLimitCountInParallel: of 1,000 requests at the same time, on connections of
// their own, exactly the count pass, counted here or in a Redis, whichever route of
// a group they take.
func TestLimitCountInParallel(t *testing.T) {
	const requests, count = 1000, 137
	server := redistest.Start(t)
	redis := fmt.Sprintf(`,"policy":"redis","redis_host":%q,"redis_port":%d,"redis_timeout":20000`, server.Host, server.Port)
	const all = `"key_type":"constant","key":"all"`
	for _, tc := range []struct{ name, how string }{
		{"fixed", all},
		{"sliding", all + `,"window_type":"sliding"`},
		{"by a variable", `"key":"host"`},
		{"group", all + `,"group":"all"`},
		{"redis", all + redis},
		{"redis, sliding", all + redis + `,"window_type":"sliding"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up := echo(t)
			g := startWith(t, nil, limitcount.Plugin)
			limit := fmt.Sprintf(`,"plugins":{"limit-count":{"count":%d,"time_window":3600,"rejected_code":429,%s}}`, count, tc.how)
			g.put("routes/1", route("/one", up.addr, limit), "routes/2", route("/two", up.addr, limit))
			paths := []string{"/one"}
			if tc.name == "group" {
				paths = []string{"/one", "/two"}
			}
			clients := make([]*client, requests)
			for i := range clients {
				clients[i] = g.dial()
			}
			var passed, refused atomic.Int64
			var clientsDone sync.WaitGroup
			begin := make(chan struct{})
			for i, c := range clients {
				clientsDone.Go(func() {
					<-begin
					if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", paths[i%len(paths)]); err != nil {
						t.Error(err)
						return
					}
					switch status, err := c.status(); {
					case err != nil:
						t.Error(err)
					case status == 200:
						passed.Add(1)
					case status == 429:
						refused.Add(1)
					default:
						t.Errorf("status %d", status)
					}
				})
			}
			close(begin)
			clientsDone.Wait()
			if passed.Load() != count || refused.Load() != requests-count {
				t.Errorf("%d passed and %d were refused, want %d and %d", passed.Load(), refused.Load(), count, requests-count)
			}
		})
	}
}

// status reads the status line of an answer.
func (c *client) status() (status int, err error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscanf(line, "HTTP/1.1 %d", &status)
	return status, err
}
