package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestTracing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "otel.toml")
	read := func(text string) (*APIcast, error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return LoadAPIcast("", []string{"OPENTELEMETRY=1", "OPENTELEMETRY_CONFIG=" + path})
	}
	a, err := LoadAPIcast("", []string{"OPENTELEMETRY=1"})
	if err != nil {
		t.Fatal(err)
	}
	defaults := Tracing{Collector: "localhost:4317", Service: "apicast", QueueSize: 2048, BatchSize: 512, Delay: 5 * time.Second, Sampler: "AlwaysOn", Ratio: 1}
	if !reflect.DeepEqual(a.Tracing, &defaults) {
		t.Errorf("%+v", a.Tracing)
	}
	if a, err = LoadAPIcast("", []string{"OPENTELEMETRY_CONFIG=/nowhere"}); err != nil || a.Tracing != nil {
		t.Error(a, err)
	}
	a, err = read("# all\nexporter = \"otlp\" # yes\nprocessor = 'batch'\n[exporters.otlp]\nhost = \"collector\"\nport = 1234\n" +
		"[processors.batch]\nmax_queue_size = 9\nschedule_delay_millis = 250\nmax_export_batch_size = 3\n[service]\nname = \"a # b\"\n" +
		"[sampler]\nname = \"TraceIdRatioBased\"\nratio = 0.25\nparent_based = true\n")
	want := &Tracing{"collector:1234", "a # b", 9, 3, 250 * time.Millisecond, "TraceIdRatioBased", 0.25, true}
	if err != nil || !reflect.DeepEqual(a.Tracing, want) {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err = read("processor = \"simple\"\n"); err != nil || a.Tracing.Delay != 100*time.Millisecond {
		t.Error(a, err)
	}
	for text, want := range map[string]string{
		"exporter = \"zipkin\"":          `exporter "zipkin" is not otlp`,
		"[sampler]\nname = \"x\"":        "sampler.name",
		"[exporters.otlp]\nport = \"p\"": "exporters.otlp.port is not a number",
		"[a\n":                           "line 1: not the name of a table",
		"[[a]]\n":                        "line 1: not the name of a table",
		"\na = b\n":                      "line 2: not a key",
		"a\n":                            "line 1: not a key",
		"a = \"x\n":                      "line 1: not a key",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzTOML(f *testing.F) {
	f.Add([]byte("a = 1\n[b.c] # x\nd = \"e\" # f\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		values, err := parseTOML(raw)
		for k, v := range values {
			if err == nil && strings.Contains(k+v, "\n") {
				t.Errorf("%q = %q", k, v)
			}
		}
	})
}
