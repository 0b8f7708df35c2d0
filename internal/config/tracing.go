package config

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"weir/internal/schema"
)

// Tracing is what OPENTELEMETRY_CONFIG says (apicast.md §9).
type Tracing struct {
	Collector   string // host:port, OTLP over gRPC
	Service     string
	QueueSize   int
	BatchSize   int
	Delay       time.Duration // until a batch is sent that is not full
	Sampler     string        // AlwaysOn, AlwaysOff, TraceIdRatioBased
	Ratio       float64
	ParentBased bool // the caller's choice comes first
}

// readTracing reads the file of an OpenTelemetry configuration, TOML; without one
// all is default.
func readTracing(path string) (*Tracing, error) {
	var values map[string]string
	if path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if values, err = parseTOML(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	get := func(name, otherwise string) string {
		if v, ok := values[name]; ok {
			return v
		}
		return otherwise
	}
	var errs []string
	number := func(name, otherwise string) float64 {
		f, err := strconv.ParseFloat(get(name, otherwise), 64)
		if err != nil || f < 0 {
			errs = append(errs, name+" is not a number")
		}
		return f
	}
	t := &Tracing{
		Collector: get("exporters.otlp.host", "localhost") + ":" + strconv.Itoa(int(number("exporters.otlp.port", "4317"))),
		Service:   get("service.name", "apicast"),
		QueueSize: int(number("processors.batch.max_queue_size", "2048")), BatchSize: int(number("processors.batch.max_export_batch_size", "512")),
		Delay:   schema.Milliseconds(number("processors.batch.schedule_delay_millis", "5000")),
		Sampler: get("sampler.name", "AlwaysOn"), Ratio: number("sampler.ratio", "1"), ParentBased: get("sampler.parent_based", "false") == "true",
	}
	const atOnce = 100 * time.Millisecond
	if get("processor", "batch") == "simple" {
		t.Delay = atOnce
	}
	if e := get("exporter", "otlp"); e != "otlp" {
		errs = append(errs, fmt.Sprintf("exporter %q is not otlp", e))
	}
	switch t.Sampler {
	case "AlwaysOn", "AlwaysOff", "TraceIdRatioBased":
	default:
		errs = append(errs, fmt.Sprintf("sampler.name %q is not one of AlwaysOn, AlwaysOff, TraceIdRatioBased", t.Sampler))
	}
	if errs != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.Join(errs, "; "))
	}
	return t, nil
}

// parseTOML reads tables, and keys with strings, numbers and booleans: as much of
// TOML as such a file has. Values are by their path, strings without quotes.
func parseTOML(raw []byte) (map[string]string, error) {
	values, table := map[string]string{}, ""
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "", line[0] == '#':
			continue
		case line[0] == '[':
			name, rest, closed := strings.Cut(line[1:], "]")
			rest = strings.TrimSpace(rest)
			if name = strings.TrimSpace(name); !closed || name == "" || name[0] == '[' || rest != "" && rest[0] != '#' {
				return nil, fmt.Errorf("line %d: not the name of a table", n)
			}
			table = name + "."
			continue
		}
		key, value, found := strings.Cut(line, "=")
		value, ok := tomlValue(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !found || key == "" || !ok {
			return nil, fmt.Errorf("line %d: not a key with a string, a number or true or false", n)
		}
		values[table+key] = value
	}
	return values, lines.Err()
}

func tomlValue(s string) (string, bool) {
	if s == "" {
		return "", false
	}
	if q := s[0]; q == '"' || q == '\'' {
		end := strings.IndexByte(s[1:], q)
		if end < 0 {
			return "", false
		}
		rest := strings.TrimSpace(s[end+2:])
		return s[1 : end+1], rest == "" || rest[0] == '#'
	}
	s, _, _ = strings.Cut(s, "#")
	s = strings.TrimSpace(s)
	if _, err := strconv.ParseFloat(s, 64); err != nil && s != "true" && s != "false" {
		return "", false
	}
	return s, true
}
