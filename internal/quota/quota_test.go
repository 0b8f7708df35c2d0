package quota

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
)

func TestPrefix(t *testing.T) {
	prefix := func(owner, conf string) string {
		env := plugintest.Env(time.Now)
		env.Owner, env.Raw = owner, json.RawMessage(conf)
		return Prefix(env)
	}
	one := prefix("routes/1", `{"count":1,"key":"a"}`)
	for conf, same := range map[string]bool{
		`{"count":1,"key":"a"}`:                             true,
		` { "key" : "a" , "count" : 1 } `:                   true,
		`{"count":1,"key":"a","_meta":{"priority":1}}`:      true,
		`{"count":2,"key":"a"}`:                             false,
		`{"count":1,"key":"a","_vid":1}`:                    false,
		`{"count":10000000000000000000000000001,"key":"a"}`: false,
	} {
		if got := prefix("routes/1", conf); (got == one) != same {
			t.Errorf("%s: %s, another has %s", conf, got, one)
		}
	}
	if prefix("routes/2", `{"count":1,"key":"a"}`) == one {
		t.Error("two routes have one prefix")
	}
	if got := prefix("consumers/jack", `1`); got == "" {
		t.Error("no prefix")
	}
}

func TestAmount(t *testing.T) {
	for _, c := range []struct {
		doc, header string
		want        int64
		err         string
	}{
		{`3`, "", 3, ""},
		{`"4"`, "", 4, ""},
		{`"$http_n"`, "5", 5, ""},
		{`"${http_n ?? 6}"`, "", 6, ""},
		{`"$http_n"`, "7.0", 7, ""},
		{`"$http_n"`, "8e0", 8, ""},
		{`"$http_n"`, "", 0, "resolved value is not a number"},
		{`"$http_n"`, "nan", 0, "resolved value is not a number"},
		{`"$http_n"`, "1.5", 0, "resolved value must be an integer, got: 1.5"},
		{`"$http_n"`, "0", 0, "resolved value must be at least 1, got: 0"},
		{`"$http_n"`, "9007199254740992", 0, "resolved value exceeds safe integer range (2^53-1), got: 9007199254740992"},
	} {
		var p Positive
		if err := json.Unmarshal([]byte(c.doc), &p); err != nil {
			t.Fatal(err)
		}
		ctx := plugintest.NewCtx("/")
		if c.header != "" {
			ctx = plugintest.NewCtx("/", [2]string{"n", c.header})
		}
		got, err := p.Value(ctx)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != c.want || text != c.err {
			t.Errorf("%s of %q: %d, %q; want %d, %q", c.doc, c.header, got, text, c.want, c.err)
		}
	}
	var n Natural
	if err := json.Unmarshal([]byte(`"$http_n"`), &n); err != nil {
		t.Fatal(err)
	}
	if got, err := n.Value(plugintest.NewCtx("/", [2]string{"n", "0"})); got != 0 || err != nil {
		t.Errorf("a natural: %d, %v", got, err)
	}
}

// TestComplaint: the operator hears of it once a second.
func TestComplaint(t *testing.T) {
	now := time.Unix(1000, 0)
	var log bytes.Buffer
	env := plugintest.Env(func() time.Time { return now })
	env.Log = slog.New(slog.NewTextHandler(&log, nil))
	c := NewComplaint(env, "p")
	made := func() bool {
		log.Reset()
		c.Make("what", nil)
		return log.Len() > 0
	}
	if !made() || made() {
		t.Error("twice at once, or never")
	}
	now = now.Add(time.Second)
	if !made() {
		t.Error("not a second later")
	}
}
