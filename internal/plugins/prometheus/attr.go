package prometheus

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/expr"
	"weir/internal/meter"
	"weir/internal/plugin"
	"weir/internal/schema"
)

// Attr is the plugin's entry in plugin_attr of config.yaml.
type Attr struct {
	URI    string `json:"export_uri"`
	Prefix string `json:"metric_prefix"`
	Server bool   `json:"enable_export_server"`
	Addr   *struct {
		IP   string `json:"ip"`
		Port *int   `json:"port"` // 0 is any free one
	} `json:"export_addr"`
	Metrics map[string]struct {
		Expire      float64             `json:"expire"` // seconds
		ExtraLabels []map[string]string `json:"extra_labels"`
	} `json:"metrics"`
	Buckets           []float64 `json:"default_buckets"`
	LLMBuckets        []float64 `json:"llm_latency_buckets"`
	PromptBuckets     []float64 `json:"llm_prompt_tokens_buckets"`
	CompletionBuckets []float64 `json:"llm_completion_tokens_buckets"`
	MaxSeries         int       `json:"max_series"`

	labels map[string][]label // extra labels by metric
	extra  bool               // there are any
}

// A label is one that requests give a value to.
type label struct {
	name  string
	value expr.Var
}

func defaultAttr() *Attr {
	latency := []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000}
	tokens := []float64{1, 10, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000}
	return &Attr{
		URI: "/apisix/prometheus/metrics", Prefix: "apisix_", Server: true,
		Buckets: latency, LLMBuckets: latency, PromptBuckets: tokens, CompletionBuckets: tokens,
	}
}

// readAttr reads the entry; nil is the default one.
func readAttr(raw json.RawMessage) (*Attr, error) {
	a := defaultAttr()
	if raw == nil {
		return a, nil
	}
	if err := json.Unmarshal(raw, a); err != nil {
		return nil, fmt.Errorf("plugin_attr.%s: %w", name, err)
	}
	for _, b := range []*[]float64{&a.Buckets, &a.LLMBuckets, &a.PromptBuckets, &a.CompletionBuckets} {
		*b = slices.Compact(slices.Sorted(slices.Values(*b)))
	}
	a.labels = map[string][]label{}
	for metric, m := range a.Metrics {
		for _, one := range m.ExtraLabels {
			for label, value := range one {
				if err := a.addLabel(metric, label, value); err != nil {
					return nil, fmt.Errorf("plugin_attr.%s.metrics.%s.extra_labels: %w", name, metric, err)
				}
			}
		}
	}
	return a, nil
}

func (a *Attr) addLabel(metric, name, value string) error {
	if !labelName(name) {
		return fmt.Errorf("%q is not the name of a label", name)
	}
	variable, ok := strings.CutPrefix(value, "$")
	if !ok {
		return fmt.Errorf("%q is not a variable", value)
	}
	v, err := expr.Variable(variable)
	if err != nil {
		return err
	}
	a.labels[metric] = append(a.labels[metric], label{name, v})
	a.extra = true
	return nil
}

// labelName says that a name is one in Prometheus' data model and not reserved.
func labelName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && s != "le" && !strings.HasPrefix(s, "__")
}

func (a *Attr) expire(metric string) time.Duration {
	return schema.Seconds(a.Metrics[metric].Expire)
}

// names are the labels of a metric with the extra ones.
func (a *Attr) names(metric string, own []string) []string {
	all := slices.Clone(own)
	for _, l := range a.labels[metric] {
		all = append(all, l.name)
	}
	return all
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// extraMetrics are the metrics whose extra labels stand in a key, in this order.
var extraMetrics = [...]string{
	"http_status", "http_latency", "bandwidth", "llm_latency", "llm_prompt_tokens", "llm_completion_tokens",
	"llm_prompt_tokens_dist", "llm_completion_tokens_dist",
}

// appendExtra appends the values of all extra labels, each with its length in
// front.
func (a *Attr) appendExtra(dst []byte, c *plugin.Ctx) []byte {
	for _, metric := range extraMetrics {
		for _, l := range a.labels[metric] {
			start := len(dst)
			dst, _ = l.value.Append(append(dst, 0, 0), c)
			n := min(len(dst)-start-2, maxValue)
			dst = dst[:start+2+n]
			dst[start], dst[start+1] = byte(n), byte(n>>8)
		}
	}
	return dst
}

// maxValue is the longest value of an extra label.
const maxValue = 1 << 12

// extras takes apart what appendExtra made: the values by metric.
func (a *Attr) extras(s string) map[string][]string {
	values := map[string][]string{}
	for _, metric := range extraMetrics {
		for range a.labels[metric] {
			n := int(s[0]) | int(s[1])<<8
			values[metric] = append(values[metric], s[2:2+n])
			s = s[2+n:]
		}
	}
	return values
}

// endpoints is the public API, for gateways without the server.
func endpoints(env plugin.Env) []plugin.Endpoint {
	attr, err := readAttr(env.Attr)
	if err != nil {
		env.Log.Error("metrics are not exported", "plugin", name, "err", err)
		return nil
	}
	recorderOf(env, attr)
	if attr.Server {
		return nil
	}
	reply := &plugin.Reply{
		Status: http.StatusOK, Header: [][2]string{{"Content-Type", meter.ContentType}},
		Stream: func(w io.Writer) error { return env.Meter.Expose(w, attr.Prefix) },
	}
	return []plugin.Endpoint{{Methods: []string{http.MethodGet}, Path: attr.URI, Serve: func(*plugin.Ctx) *plugin.Reply { return reply }}}
}

// An Export is the export server that config.yaml wants.
type Export struct {
	Addr  string
	Given bool   // the address stands in config.yaml
	URI   string // of the metrics
	http.Handler
}

// Server is the export server of a gateway whose plugin_attr.prometheus is raw;
// nil: it wants none.
func Server(raw json.RawMessage, metrics *meter.Registry) (*Export, error) {
	attr, err := readAttr(raw)
	if err != nil || !attr.Server {
		return nil, err
	}
	e := &Export{Addr: defaultAddr, URI: attr.URI}
	if a := attr.Addr; a != nil {
		port := defaultPort
		if a.Port != nil {
			port = *a.Port
		}
		e.Addr, e.Given = net.JoinHostPort(cmp.Or(a.IP, defaultIP), strconv.Itoa(port)), true
	}
	e.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != attr.URI {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", meter.ContentType)
		_ = metrics.Expose(w, attr.Prefix) // a scraper that left is not news
	})
	return e, nil
}

// Where the server listens unless config.yaml says otherwise.
const (
	defaultIP   = "127.0.0.1"
	defaultPort = 9091
	defaultAddr = "127.0.0.1:9091"
)
