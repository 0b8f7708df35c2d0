package plugintest

import (
	"bytes"
	"errors"
	"strconv"
	"testing"
	"time"

	"weir/internal/plugin"
)

// everything is a plugin with all phases.
func everything(logged *int) plugin.Spec {
	type config struct {
		Word string `json:"word" schema:"required"`
	}
	return plugin.Define(plugin.Meta{Name: "everything"}, func(c *config, env plugin.Env) (plugin.Phases, error) {
		if c.Word == "bad" {
			return plugin.Phases{}, errors.New("a bad word")
		}
		start := plugin.Keep(env, "start", func() *time.Time { return new(env.Now()) })
		closed := false
		return plugin.Phases{
			Rewrite: func(r *plugin.Ctx) *plugin.Reply {
				r.Consumer = r.Find("everything", c.Word)
				if _, err := r.Buffer.Body(3); err != nil {
					return plugin.Text(413, err.Error(), [2]string{"X-Why", "size"})
				}
				r.SetHeader("X-Word", c.Word)
				r.To.Body = []byte("new")
				r.Pause(time.Second)
				r.DelQuery("gone")
				return nil
			},
			Access: func(r *plugin.Ctx) *plugin.Reply {
				r.SetReplyHeader("X-Age", strconv.Itoa(int(env.Now().Sub(*start)/time.Second)))
				if r.Client == "10.0.0.1" {
					return plugin.JSON(403, "no")
				}
				return nil
			},
			Header: func(r *plugin.Ctx) { r.Response.Header.Set("X-Status", strconv.Itoa(r.Response.Status)) },
			Body:   func(*plugin.Ctx) plugin.BodyFilter { return upper{} },
			Encode: func(r *plugin.Ctx) plugin.BodyFilter {
				if r.Sent.Source != plugin.FromUpstream {
					return nil
				}
				return &quote{left: 1}
			},
			Log: func(r *plugin.Ctx) { *logged += int(r.Sent.BodyBytes) },
			Close: func() {
				if closed {
					panic("closed twice")
				}
				closed = true
			},
		}, nil
	})
}

type upper struct{}

func (upper) Write(chunk []byte, last bool) []byte {
	if last {
		return append(bytes.ToUpper(chunk), '!')
	}
	return bytes.ToUpper(chunk)
}

// quote puts a quotation mark in front.
type quote struct{ left int }

func (q *quote) Size(in int64) int64 { return in + 1 }

func (q *quote) Write(chunk []byte, _ bool) []byte {
	mark := []byte{'"'}[:q.left]
	q.left = 0
	return append(mark, chunk...)
}

func (q *quote) Close() { q.left = 1 }

func TestRun(t *testing.T) {
	logged := 0
	type h = map[string]string
	Run(t, everything(&logged), []Case{
		{Name: "no word", Config: `{}`, Invalid: `property "word" is required`},
		{Name: "bad word", Config: `{"word":"bad"}`, Invalid: "a bad word"},
		{
			Name: "phases", Config: `{"word":"w"}`,
			Consumers: Consumers{{"everything", "w"}: {Name: "jack"}},
			Requests: []Request{
				{
					Query: h{"gone": "1"}, Payload: "abc", Answer: Answer{Status: 404, Header: h{"X-Up": "1"}, Body: "none"},
					Body: "\"NONE!", UpstreamBody: "new", Pause: time.Second, Reply: h{"X-Up": "1", "X-Status": "404", "X-Age": "0", "X-Other": ""},
					Consumer: "jack", Upstream: h{"X-Word": "w"}, Gone: []string{"X-Other"}, UpstreamTarget: "/",
				},
				{After: time.Minute, Payload: "abcd", Status: 413, Body: "TOO LARGE", Reply: h{"X-Why": "size", "X-Status": "413"}, Consumer: "jack"},
				{Client: "10.0.0.1", Status: 403, Pause: time.Second, Body: `"NO"`, Reply: h{"X-Age": "60"}, Consumer: "jack"},
			},
		},
	})
	if want := len("\"none!") + len("request body too large!") + len("\"no\"\n!"); logged != want {
		t.Errorf("logged %d bytes, want %d", logged, want)
	}
}
