package phaselogger

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func phases(t *testing.T, level slog.Level, config string) (plugin.Phases, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	env := plugintest.Env(time.Now)
	env.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
	ph, err := Policy.Compile([]byte(config), env)
	if err != nil {
		t.Fatal(err)
	}
	return ph, &out
}

func Test(t *testing.T) {
	for config, level := range map[string]string{`{}`: "DEBUG", `{"log_level":"notice"}`: "INFO+2", `{"log_level":"error"}`: "ERROR", `{"log_level":"loud"}`: "DEBUG"} {
		ph, out := phases(t, slog.LevelDebug, config)
		c := plugintest.NewCtx("/")
		if reply := plugintest.Send(ph, c); reply != nil {
			t.Fatalf("%+v", reply)
		}
		ph.Header(c)
		if ph.Body(c) != nil {
			t.Error("a filter")
		}
		ph.Log(c)
		got := regexp.MustCompile(`running phase: (\w+)`).FindAllStringSubmatch(out.String(), -1)
		var names []string
		for _, m := range got {
			names = append(names, m[1])
		}
		if s := strings.Join(names, " "); s != "rewrite access content balancer header_filter body_filter post_action log" {
			t.Errorf("%s", s)
		}
		if !strings.Contains(out.String(), "level="+level+" ") {
			t.Errorf("%s: %s", config, out)
		}
	}
}

func TestUnheard(t *testing.T) {
	ph, _ := phases(t, slog.LevelWarn, `{"log_level":"info"}`)
	if ph.Rewrite != nil || ph.Log != nil || ph.Body != nil {
		t.Error("what nobody hears costs")
	}
}
