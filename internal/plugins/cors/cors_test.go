package cors

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
	"weir/internal/wire"
)

// ask sends a request with an Origin, if not empty, and returns the answer's
// header as one line.
func ask(tb testing.TB, conf, metadata, origin string, fields ...[2]string) string {
	tb.Helper()
	env := plugintest.Env(time.Now)
	if metadata != "" {
		env.Metadata = json.RawMessage(metadata)
	}
	ph, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		tb.Fatal(err)
	}
	ctx := plugintest.NewCtx("/", fields...)
	if origin != "" {
		ctx.Request.Header.Add("Origin", origin)
	}
	if plugintest.Send(ph, ctx) != nil {
		tb.Fatal("answered")
	}
	ctx.DelHeader("Origin") // as another plugin may
	ctx.Response = new(wire.Response)
	ph.Header(ctx)
	text := strings.ReplaceAll(string(ctx.Response.Header.AppendTo(nil)), "\r\n", "|")
	text = strings.NewReplacer("Access-Control-Allow-", "A-", "Access-Control-", "C-").Replace(text)
	return strings.Replace(text, "|A-Methods: *|C-Max-Age: 5|A-Headers: *|", "|...|", 1)
}

func TestOrigins(t *testing.T) {
	const a, b = "http://a.test", "https://b.test:8080"
	const meta = `{"allow_origins":{"one":"http://a.test","many":"http://c.test,https://b.test:8080","all":"*"}}`
	for _, c := range []struct{ conf, meta, origin, want string }{
		{`{}`, "", a, "A-Origin: *|...|"},
		{`{}`, "", "", "A-Origin: *|...|"},
		{`{"allow_origins":"**"}`, "", a, "Vary: Origin|A-Origin: http://a.test|...|"},
		{`{"allow_origins":"**"}`, "", "", "Vary: Origin|A-Origin: *|...|"},
		{`{"allow_origins":"null"}`, "", "null", "Vary: Origin|A-Origin: null|...|"},
		{`{"allow_origins":"http://a.test"}`, "", a, "Vary: Origin|A-Origin: http://a.test|...|"},
		{`{"allow_origins":"http://a.test"}`, "", b, "Vary: Origin|"},
		{`{"allow_origins":"http://a.test"}`, "", "", "Vary: Origin|"},
		{`{"allow_origins":"http://a.test,https://b.test:8080"}`, "", b, "Vary: Origin|A-Origin: https://b.test:8080|...|"},
		{`{"allow_origins":"http://a.test,https://b.test:8080"}`, "", "http://c.test", "Vary: Origin|"},
		{`{"allow_origins":"http://a.test,https://b.test:8080"}`, "", "", "Vary: Origin|"},
		{`{"allow_origins_by_regex":[".*\\.test$"]}`, "", a, "A-Origin: http://a.test|...|"},
		{`{"allow_origins_by_regex":[".*\\.test$"]}`, "", b, ""},
		{`{"allow_origins_by_regex":[".*\\.test$"]}`, "", "", ""},
		{`{"allow_origins":"https://b.test:8080","allow_origins_by_regex":[".*\\.test$"]}`, "", b, "Vary: Origin|"},
		{`{"allow_origins_by_metadata":["one","none"]}`, meta, a, "A-Origin: http://a.test|...|"},
		{`{"allow_origins_by_metadata":["one","none"]}`, meta, b, ""},
		{`{"allow_origins_by_metadata":["one","many"]}`, meta, b, "A-Origin: https://b.test:8080|...|"},
		{`{"allow_origins_by_metadata":["all"]}`, meta, b, "A-Origin: https://b.test:8080|...|"},
		{`{"allow_origins_by_metadata":["all"]}`, meta, "", ""},
		{`{"allow_origins_by_metadata":["one"]}`, "", a, ""},
		{`{"allow_origins":"https://b.test:8080","allow_origins_by_metadata":["one"]}`, meta, b, "Vary: Origin|A-Origin: https://b.test:8080|...|"},
		{`{"allow_origins":"https://b.test:8080","allow_origins_by_metadata":["one"]}`, meta, a, "Vary: Origin|A-Origin: http://a.test|...|"},
		{`{"timing_allow_origins":"*","allow_origins":"http://a.test"}`, "", b, "Vary: Origin|Timing-Allow-Origin: *|"},
		{`{"timing_allow_origins":"http://a.test,http://c.test","allow_origins":"http://d.test"}`, "", a, "Vary: Origin|Timing-Allow-Origin: http://a.test|"},
		{`{"timing_allow_origins":"http://a.test","allow_origins":"http://d.test"}`, "", b, "Vary: Origin|"},
		{`{"timing_allow_origins_by_regex":[".*\\.test$"],"allow_origins":"http://d.test"}`, "", a, "Vary: Origin|Timing-Allow-Origin: http://a.test|"},
		{`{"timing_allow_origins_by_regex":[".*\\.test$"],"allow_origins":"http://d.test"}`, "", "", "Vary: Origin|"},
	} {
		if got := ask(t, c.conf, c.meta, c.origin); got != c.want {
			t.Errorf("%s from %q:\n got %s\nwant %s", c.conf, c.origin, got, c.want)
		}
	}
}

func TestHeaders(t *testing.T) {
	const conf = `{"allow_origins":"**","allow_methods":"**","allow_headers":"**","expose_headers":"x-a,x-b","max_age":-1,"allow_credential":true}`
	const all = "A-Methods: GET,POST,PUT,DELETE,PATCH,HEAD,OPTIONS,CONNECT,TRACE|C-Max-Age: -1|C-Expose-Headers: x-a,x-b|"
	want := "Vary: Origin|A-Origin: http://a|" + all + "A-Headers: x-c|A-Credentials: true|"
	if got := ask(t, conf, "", "http://a", [2]string{"Access-Control-Request-Headers", "x-c"}); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	want = "Vary: Origin|A-Origin: http://a|" + all + "A-Credentials: true|"
	if got := ask(t, conf, "", "http://a"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestPreflight(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "preflight", Config: `{}`, Requests: []plugintest.Request{
			{Method: "OPTIONS", Status: 200, Reply: map[string]string{"Access-Control-Allow-Origin": "*"}},
			// Field case 137: one header, whatever the upstream sends.
			{Answer: plugintest.Answer{Header: map[string]string{"Access-Control-Allow-Origin": "http://up"}}, Reply: map[string]string{"Access-Control-Allow-Origin": "*"}},
		}},
		{Name: "credentials", Config: `{"allow_credential":true}`, Invalid: "you can not set '*' for other option when 'allow_credential' is true"},
		{Name: "origins", Config: `{"allow_origins":"http//a"}`, Invalid: `property "allow_origins" validation failed: failed to match pattern`},
		{Name: "pattern", Config: `{"allow_origins_by_regex":["a("]}`, Invalid: `pcre_compile() failed: missing ) in "a("`},
		{Name: "timing pattern", Config: `{"timing_allow_origins_by_regex":["a("]}`, Invalid: `pcre_compile() failed: missing ) in "a("`},
	})
	if err := Plugin.MetadataSchema().Check([]byte(`{"allow_origins":{"a":"b"}}`)); err == nil {
		t.Error("metadata with what is no origin was taken")
	}
}

func TestNoAllocation(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	ph, err := Plugin.Compile([]byte(`{"allow_origins":"http://a.test,http://b.test","expose_headers":"x"}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	ctx := plugintest.NewCtx("/", [2]string{"Origin", "http://a.test"})
	response := new(wire.Response)
	if n := testing.AllocsPerRun(100, func() {
		ctx.Reset()
		response.Reset()
		ctx.Response = response
		plugintest.Send(ph, ctx)
		ph.Header(ctx)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
