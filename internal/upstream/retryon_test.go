package upstream

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/model"
)

// answers is a node that gives one answer after the other, the last for ever.
func answers(t testing.TB, list ...string) (node model.Node, asked func() int) {
	t.Helper()
	next := make(chan string, len(list))
	for _, a := range list[:len(list)-1] {
		next <- a
	}
	count := make(chan int, 1)
	count <- 0
	node = serve(t, func(p *peer) {
		for {
			_, body, err := p.request()
			if err != nil {
				return
			}
			count <- <-count + 1
			answer := list[len(list)-1]
			select {
			case answer = <-next:
			default:
			}
			switch answer {
			case "closes":
				return
			case "waits":
				p.gone()
				return
			}
			p.say("HTTP/1.1 %s x\r\nContent-Length: %d\r\n\r\n%s", answer, len(body)+2, "<"+body+">")
		}
	})
	return node, func() int {
		n := <-count
		count <- n
		return n
	}
}

// One node is asked again in the cases that are chosen, and as often as allowed
// (nginx: proxy_next_upstream).
func TestRetryOn(t *testing.T) {
	errors503 := &model.RetryOn{Error: true, Statuses: []int{503, 504}}
	long := strings.Repeat("x", window+1)
	for _, tc := range []struct {
		name    string
		on      *model.RetryOn
		retries int
		method  string
		body    string
		answers []string
		want    string // status and body, or the kind of the failure
		asked   int
	}{
		{"answers are kept", nil, 2, "GET", "", []string{"503", "200"}, "503 <>", 1},
		{"twice", errors503, 2, "GET", "", []string{"503", "504", "200"}, "200 <>", 3},
		{"no more tries", errors503, 1, "GET", "", []string{"503", "504", "200"}, "504 <>", 2},
		{"another status", errors503, 2, "GET", "", []string{"500", "200"}, "500 <>", 1},
		{"no tries", errors503, 0, "GET", "", []string{"503", "200"}, "503 <>", 1},
		{"a body", errors503, 2, "PUT", "hello", []string{"503", "200"}, "200 <hello>", 2},
		{"a long body", errors503, 2, "PUT", long, []string{"503", "200"}, "503 <" + long + ">", 1},
		{"with an effect", errors503, 2, "POST", "hello", []string{"503", "200"}, "503 <hello>", 1},
		{"with an effect, which does not matter", &model.RetryOn{Statuses: []int{503}, NonIdempotent: true}, 2, "POST", "hello", []string{"503", "200"}, "200 <hello>", 2},
		{"an error", errors503, 2, "GET", "", []string{"closes", "200"}, "200 <>", 2},
		{"an error that is not meant", &model.RetryOn{Timeout: true}, 2, "GET", "", []string{"closes", "200"}, Reset.String(), 1},
		{"a time-out", &model.RetryOn{Timeout: true}, 2, "GET", "", []string{"waits", "200"}, "200 <>", 2},
		{"a time-out that is not meant", errors503, 2, "GET", "", []string{"waits", "200"}, Timeout.String(), 1},
		{"nothing", &model.RetryOn{}, 2, "GET", "", []string{"closes", "200"}, Reset.String(), 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node, asked := answers(t, tc.answers...)
			u := compile(t, &model.Upstream{
				Nodes: nodes(node), Retries: &tc.retries, RetryOn: tc.on, Timeout: model.Timeout{Read: 300 * time.Millisecond},
			}, env(pools(t)))
			c := call(t, tc.method)
			if tc.body != "" {
				c.Body, c.Length = strings.NewReader(tc.body), int64(len(tc.body))
			}
			status, body, err := do(u, c)
			got := kindOf(err).String()
			if err == nil {
				got = strconv.Itoa(status) + " " + body
			}
			if got != tc.want {
				t.Errorf("%.200s, want %.200s", got, tc.want)
			}
			if n := asked(); n != tc.asked {
				t.Errorf("asked %d times, want %d", n, tc.asked)
			}
		})
	}
}

// What was given up is among the tries.
func TestRetriesAreTold(t *testing.T) {
	node, _ := answers(t, "503", "200")
	one := 1
	u := compile(t, &model.Upstream{Nodes: nodes(node), Retries: &one, RetryOn: &model.RetryOn{Statuses: []int{503}}}, env(pools(t)))
	c := call(t, "GET")
	mustDo(t, u, c)
	if len(c.Tries) != 2 || c.Tries[0].Status != 503 || c.Tries[1].Status != 200 {
		t.Errorf("%+v", c.Tries)
	}
}
