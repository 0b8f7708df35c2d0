package app

// Tests of the field reports about limits of requests, in a whole gateway. The
// numbers are those of the reports.

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// quota sends a request and returns its status and what remains, "200 1", from
// the limit, if asked for, "200 1 of 2".
func (s *site) quota(path string, limit bool, headers ...string) string {
	req, err := http.NewRequest("GET", s.proxy+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.http.Do(req)
	if err != nil {
		s.t.Error(err)
		return ""
	}
	res.Body.Close()
	got := fmt.Sprint(res.StatusCode, " ", res.Header.Get("X-RateLimit-Remaining"))
	if limit {
		got += " of " + res.Header.Get("X-RateLimit-Limit")
	}
	return got
}

func (s *site) expect(want, got string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("got %q, want %q", got, want)
	}
}

// limited is a route with a limit.
func (s *site) limited(uri, plugins string) string {
	return fmt.Sprintf(`{"uri":"%s","plugins":{%s},"upstream":{"nodes":{"%s":1}}}`, uri, plugins, s.echo)
}

// Case 196: routes with equal limits count apart. Cases 41 and 78 ask for no
// less: nothing that changes elsewhere resets a count.
func TestFieldLimitsApart(t *testing.T) {
	s := newSite(t, "")
	const limit = `"limit-count":{"count":3,"time_window":600}`
	s.put("routes/1", s.limited("/a", limit))
	s.put("routes/2", s.limited("/b", limit))
	s.expect("200 2", s.quota("/a", false))
	s.expect("200 2", s.quota("/b", false))
	s.expect("200 1", s.quota("/a", false))
	for i := range 20 {
		s.put("routes/1", strings.Replace(s.limited("/a", limit), "{", fmt.Sprintf(`{"desc":"%d",`, i), 1))
		s.put("routes/3", s.limited(fmt.Sprintf("/c%d", i), limit))
	}
	s.expect("200 0", s.quota("/a", false))
	s.call("DELETE", "routes/1", "")
	s.put("routes/1", s.limited("/a", limit))
	s.expect("503 0", s.quota("/a", false))
	// Case 203: a lower quota is never exceeded by what remains.
	s.put("routes/2", s.limited("/b", `"limit-count":{"count":1,"time_window":600}`))
	s.expect("200 0 of 1", s.quota("/b", true))
}

// Cases 62, 199 and 204: a consumer's limit counts over all routes and all of
// its credentials, and a change of it holds at once.
func TestFieldConsumerLimits(t *testing.T) {
	s := newSite(t, "")
	s.put("routes/1", s.limited("/a", `"key-auth":{}`))
	s.put("routes/2", s.limited("/b", `"key-auth":{}`))
	consumer := func(n int) string {
		return fmt.Sprintf(`{"username":"jack","plugins":{"limit-count":{"count":%d,"time_window":600}}}`, n)
	}
	s.put("consumers/jack", consumer(10))
	s.put("consumers/jack/credentials/one", `{"plugins":{"key-auth":{"key":"k1"}}}`)
	s.put("consumers/jack/credentials/two", `{"plugins":{"key-auth":{"key":"k2"}}}`)
	s.expect("200 9 of 10", s.quota("/a", true, "apikey", "k1"))
	s.expect("200 8 of 10", s.quota("/b", true, "apikey", "k2"))
	s.put("consumers/jack", consumer(2))
	s.expect("200 1 of 2", s.quota("/a", true, "apikey", "k1"))
	s.expect("200 0 of 2", s.quota("/b", true, "apikey", "k2"))
	s.call("DELETE", "consumers/jack/credentials/one", "")
	s.put("consumers/jack/credentials/three", `{"plugins":{"key-auth":{"key":"k3"}}}`)
	s.expect("503 0 of 2", s.quota("/a", true, "apikey", "k3"))

	s.put("consumers/jill", `{"username":"jill","plugins":{"key-auth":{"key":"k4"},"limit-req":{"rate":0.001,"burst":0,"key":"consumer_name"}}}`)
	s.expect("200 ", s.quota("/a", false, "apikey", "k4"))
	s.expect("503 ", s.quota("/b", false, "apikey", "k4"))
}

// Case 80: what a policy allows that many share, here a consumer group, holds at once
// for all of them when it changes, also for those who have used it.
func TestFieldSharedPolicy(t *testing.T) {
	s := newSite(t, "")
	s.put("routes/1", s.limited("/a", `"key-auth":{}`))
	policy := func(n int) {
		t.Helper()
		s.put("consumer_groups/p", fmt.Sprintf(`{"plugins":{"limit-count":{"count":%d,"time_window":600}}}`, n))
	}
	policy(10)
	for _, name := range []string{"jack", "jill"} {
		s.put("consumers/"+name, fmt.Sprintf(`{"username":%q,"group_id":"p","plugins":{"key-auth":{"key":%[1]q}}}`, name))
	}
	s.expect("200 9 of 10", s.quota("/a", true, "apikey", "jack"))
	policy(5)
	for _, name := range []string{"jack", "jill"} {
		passed := 0
		for ; passed < 20; passed++ {
			got := s.quota("/a", true, "apikey", name)
			if !strings.HasSuffix(got, " of 5") {
				t.Fatalf("%s: %s", name, got)
			}
			if strings.HasPrefix(got, "503") {
				break
			}
		}
		if passed > 5 {
			t.Errorf("%s: %d requests passed", name, passed)
		}
	}
}

// Case 98: consumer over group over route over plugin config over service.
func TestFieldPrecedence(t *testing.T) {
	s := newSite(t, "")
	limit := func(n int) string { return fmt.Sprintf(`"plugins":{"limit-count":{"count":%d,"time_window":600}}`, n) }
	s.put("services/1", fmt.Sprintf(`{%s,"upstream":{"nodes":{"%s":1}}}`, limit(5), s.echo))
	s.put("plugin_configs/1", `{`+limit(4)+`}`)
	s.put("consumer_groups/1", `{`+limit(2)+`}`)
	auth := func(more string) string { return `{"uri":"/a","service_id":"1","plugins":{"key-auth":{}` + more + `}` }
	s.put("routes/1", auth(`,"limit-count":{"count":3,"time_window":600}`)+`,"plugin_config_id":"1"}`)
	consumer := `{"username":"jack","group_id":"1","plugins":{"key-auth":{"key":"k"}%s}}`
	s.put("consumers/jack", fmt.Sprintf(consumer, `,"limit-count":{"count":1,"time_window":600}`))
	s.expect("200 0 of 1", s.quota("/a", true, "apikey", "k"))
	s.put("consumers/jack", fmt.Sprintf(consumer, ""))
	s.expect("200 1 of 2", s.quota("/a", true, "apikey", "k"))
	s.put("consumers/jack", strings.Replace(fmt.Sprintf(consumer, ""), `"group_id":"1",`, "", 1))
	s.expect("200 2 of 3", s.quota("/a", true, "apikey", "k"))
	s.put("routes/1", auth("")+`,"plugin_config_id":"1"}`)
	s.expect("200 3 of 4", s.quota("/a", true, "apikey", "k"))
	s.put("routes/1", auth("")+`}`)
	s.expect("200 4 of 5", s.quota("/a", true, "apikey", "k"))
}

// Case 63: a group may come back with another limit; while there is one, what
// differs is refused.
func TestFieldGroup(t *testing.T) {
	s := newSite(t, "")
	group := func(n int) string { return fmt.Sprintf(`"limit-count":{"count":%d,"time_window":600,"group":"g"}`, n) }
	s.put("routes/1", s.limited("/a", group(5)))
	s.put("routes/2", s.limited("/b", group(5)))
	s.expect("200 4 of 5", s.quota("/a", true))
	s.expect("200 3 of 5", s.quota("/b", true))
	if status := s.call("PUT", "routes/3", s.limited("/c", group(7))); status != 400 {
		t.Errorf("another configuration: %d", status)
	}
	s.call("DELETE", "routes/1", "")
	s.call("DELETE", "routes/2", "")
	s.put("routes/3", s.limited("/c", group(7)))
	s.expect("200 6 of 7", s.quota("/c", true))
}

// Case 202: of 1,000 requests at once exactly as many pass as may, while the
// configuration changes all the time.
func TestFieldExactUnderChange(t *testing.T) {
	s := newSite(t, "")
	for _, window := range []string{"fixed", "sliding"} {
		uri := "/" + window
		conf := s.limited(uri, fmt.Sprintf(`"limit-count":{"count":100,"time_window":6000,"window_type":"%s","key":"route_id"}`, window))
		s.put("routes/"+window, conf)
		var passed atomic.Int64
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for range 50 {
					if strings.HasPrefix(s.quota(uri, false), "200") {
						passed.Add(1)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for i, more := 0, true; more; i++ {
			s.put("routes/"+window, strings.Replace(conf, "{", fmt.Sprintf(`{"desc":"%d",`, i), 1))
			select {
			case <-done:
				more = false
			default:
			}
		}
		if n := passed.Load(); n != 100 {
			t.Errorf("%s: %d of 1000 passed, want 100", window, n)
		}
	}
}

// Traffic keeps its split while the configuration changes: turns are not begun
// anew.
func TestFieldSplitUnderChange(t *testing.T) {
	s := newSite(t, "")
	canary := s.upstream("canary")
	route := s.limited("/a", `"traffic-split":{"rules":[{"weighted_upstreams":[{"upstream":{"nodes":{"`+canary+`":1}},"weight":1},{"weight":3}]}]}`)
	count := map[string]int{}
	for i := range 40 {
		s.put("routes/1", strings.Replace(route, "{", fmt.Sprintf(`{"desc":"%d",`, i), 1))
		_, body := get(t, s.proxy+"/a")
		count[body]++
	}
	if count["canary"] != 10 || count["ok"] != 30 {
		t.Errorf("40 requests went to %v", count)
	}
}
