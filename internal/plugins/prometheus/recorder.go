package prometheus

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"weir/internal/meter"
	"weir/internal/plugin"
)

// The kinds of latency and the directions of bandwidth, and their labels.
const (
	whole = iota
	inUpstream
	inGateway

	ingress = 0
	egress  = 1
)

var (
	latencyTypes   = [...]string{"request", "upstream", "apisix"}
	bandwidthTypes = [...]string{"ingress", "egress"}

	requestLabels = []string{"route", "service", "consumer", "node", "request_type", "request_llm_model", "llm_model"}
	statusLabels  = []string{
		"code", "route", "matched_uri", "matched_host", "service", "consumer", "node",
		"request_type", "request_llm_model", "llm_model", "response_source",
	}
)

// A recorder counts the requests of all configurations.
type recorder struct {
	attr   *Attr
	exists func(object string) bool
	meter  *meter.Registry
	sets   *meter.Table[key, set]

	status, latency, bandwidth *meter.Vec
	llm                        llmVecs

	awake    atomic.Bool // a sweep is due
	sweeping sync.Mutex
	closed   bool
	timer    *time.Timer
	every    time.Duration
}

// A key is what a request is labelled by.
type key struct {
	view                             *view
	routeID, serviceID               string
	route, service                   string // names, if the view wants them
	path, host, consumer, node       string
	requestType, requestModel, model string
	extra                            string
	code                             int
	source                           plugin.Source
}

// A set is the series of one key. What the limit of series does not admit is nil.
type set struct {
	status    *meter.Series
	latency   [len(latencyTypes)]*meter.Series
	bandwidth [len(bandwidthTypes)]*meter.Series
	llm       *llmSet // nil: no request to a model
}

func add(s *meter.Series, n int64) {
	if s != nil {
		s.Add(n)
	}
}

func observe(s *meter.Series, n int64) {
	if s != nil {
		s.Observe(n)
	}
}

// sweepEvery is how often series are looked for whose object is gone, unless they
// expire sooner; then it is done several times as they do.
const sweepEvery = 15 * time.Second

func (a *Attr) sweepEvery() time.Duration {
	every := sweepEvery
	for metric := range a.Metrics {
		if d := a.expire(metric); d > 0 {
			every = min(every, max(d/4, sweepEvery/60))
		}
	}
	return every
}

func recorderOf(env plugin.Env, attr *Attr) *recorder {
	return plugin.Lasting(env, name, func() *recorder { return newRecorder(env, attr) })
}

func newRecorder(env plugin.Env, attr *Attr) *recorder {
	m := env.Meter
	m.SetLimit(attr.MaxSeries)
	r := &recorder{
		attr: attr, exists: env.Exists, meter: m, sets: meter.NewTable[key, set](), every: attr.sweepEvery(),
		status: m.Vec(meter.Desc{
			Name: "http_status", Help: "HTTP status codes per service in APISIX",
			Labels: attr.names("http_status", statusLabels), Expire: attr.expire("http_status"),
		}),
		latency: m.Vec(meter.Desc{
			Name: "http_latency", Help: "HTTP request latency in milliseconds per service in APISIX", Kind: meter.Histogram,
			Labels: attr.names("http_latency", slices.Concat([]string{"type"}, requestLabels)),
			Expire: attr.expire("http_latency"), Buckets: attr.Buckets, Unit: float64(time.Millisecond),
		}),
		bandwidth: m.Vec(meter.Desc{
			Name: "bandwidth", Help: "Total bandwidth in bytes consumed per service in APISIX",
			Labels: attr.names("bandwidth", slices.Concat([]string{"type"}, requestLabels)), Expire: attr.expire("bandwidth"),
		}),
		llm: newLLMVecs(m, attr),
	}
	m.Func(meter.Desc{Name: "nginx_metric_errors_total", Help: "Number of series that the limit of series did not admit"},
		func(emit func(float64, ...string)) { emit(float64(m.Refused())) })
	return r
}

// wake makes a sweep due, now that there are series.
func (r *recorder) wake() {
	if r.awake.Load() || !r.awake.CompareAndSwap(false, true) {
		return
	}
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	if !r.closed {
		r.timer = time.AfterFunc(r.every, r.sweep)
	}
}

// sweep drops the series of objects that are gone, and those that have expired.
func (r *recorder) sweep() {
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	if r.closed {
		return
	}
	r.meter.Sweep(time.Now())
	r.sets.Delete(func(_ key, s set) bool { return s.doomed() })
	r.awake.Store(false)
	if r.meter.Series() > 0 && r.awake.CompareAndSwap(false, true) {
		r.timer.Reset(r.every)
	}
}

// Close ends the recorder.
func (r *recorder) Close() {
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
}

// doomed says that one of the series will be dropped unless it is asked for again.
func (s *set) doomed() bool {
	is := func(x *meter.Series) bool { return x != nil && x.Doomed() }
	return is(s.status) || slices.ContainsFunc(s.latency[:], is) || slices.ContainsFunc(s.bandwidth[:], is) ||
		s.llm != nil && s.llm.any(is)
}

// keyOf is the key of a request but for extra labels. Its strings live as long as
// the request.
func (v *view) keyOf(c *plugin.Ctx) key {
	k := key{view: v, path: c.MatchedPath, host: c.MatchedHost, code: c.Sent.Status, source: c.Sent.Source}
	if r := c.Route; r != nil {
		k.routeID, k.serviceID = r.ID, r.ServiceID
		if v.names {
			k.route, k.service = r.Name, r.ServiceName
		}
	}
	if c.Consumer != nil {
		k.consumer = c.Consumer.Name
	}
	if n := len(c.Sent.Tries); n > 0 {
		k.node = ipOf(c.Sent.Tries[n-1].Addr)
	}
	k.requestType = "traditional_http"
	if t, ok := c.Var("request_type"); ok {
		k.requestType = t
	}
	k.requestModel, k.model = modelOf(c, "request_llm_model"), modelOf(c, "llm_model")
	return k
}

// ipOf is the address without port and brackets.
func ipOf(addr string) string {
	if i := strings.LastIndexByte(addr, ':'); i >= 0 {
		addr = addr[:i]
	}
	return strings.Trim(addr, "[]")
}

// modelOf is the name of a model, which clients choose: it is cut.
func modelOf(c *plugin.Ctx, variable string) string {
	const longest = 128
	m, _ := c.Var(variable)
	return m[:min(len(m), longest)]
}

// clone makes a key that outlives the request. Its texts lie together: comparing
// keys is most of what counting a request takes.
func (k key) clone() key {
	texts := [...]*string{
		&k.consumer, &k.routeID, &k.serviceID, &k.route, &k.service, &k.path, &k.host, &k.node,
		&k.requestType, &k.requestModel, &k.model, &k.extra,
	}
	var all strings.Builder
	for _, s := range texts {
		all.WriteString(*s)
	}
	rest := all.String()
	for _, s := range texts {
		*s, rest = rest[:len(*s)], rest[len(*s):]
	}
	return k
}

// resolve finds or makes the series of a key. It is done once for a key, and
// again after they were dropped.
func (v *view) resolve(k key) set {
	v.wake()
	value := map[string]string{
		"code": strconv.Itoa(k.code), "route": cmp.Or(k.route, k.routeID), "route_id": cmp.Or(k.route, k.routeID),
		"matched_uri": k.path, "matched_host": k.host,
		"service": cmp.Or(k.service, k.serviceID), "service_id": cmp.Or(k.service, k.serviceID), "consumer": k.consumer, "node": k.node,
		"request_type": k.requestType, "request_llm_model": k.requestModel, "llm_model": k.model,
		"response_source": k.source.String(),
	}
	all := &resolution{view: v, key: k, value: value, extra: v.attr.extras(k.extra)}
	s := set{status: all.series(v.status, "http_status", statusLabels, v.disabled.Status)}
	for i, t := range latencyTypes {
		if i != inUpstream || k.node != "" {
			s.latency[i] = all.series(v.latency, "http_latency", requestLabels, v.disabled.Latency, t)
		}
	}
	for i, t := range bandwidthTypes {
		s.bandwidth[i] = all.series(v.bandwidth, "bandwidth", requestLabels, v.disabled.Bandwidth, t)
	}
	if strings.HasPrefix(k.requestType, "ai_") {
		s.llm = v.llm.resolve(all, &v.disabled)
	}
	if all.refused {
		return s // there may be room the next time
	}
	return v.sets.Put(k, s)
}

// A resolution is the search for the series of one key.
type resolution struct {
	view    *view
	key     key
	value   map[string]string // by label
	extra   map[string][]string
	refused bool // the registry is full
}

// series is the series of a metric with the given label values first.
func (r *resolution) series(vec *meter.Vec, metric string, labels, disabled []string, first ...string) *meter.Series {
	o := &owner{exists: r.view.exists}
	values := slices.Clone(first)
	for _, label := range labels {
		if slices.Contains(disabled, label) {
			values = append(values, "")
			continue
		}
		o.see(label, &r.key)
		values = append(values, r.value[label])
	}
	s, ok := vec.With(o, append(values, r.extra[metric]...)...)
	r.refused = r.refused || !ok
	return s
}

// An owner is the objects that a series is about. Those in labels that are
// disabled do not count.
type owner struct {
	route, service, consumer string // "routes/1"; empty: none
	exists                   func(string) bool
}

func (o *owner) see(label string, k *key) {
	under := func(dir, id string) string {
		if id == "" {
			return ""
		}
		return dir + id
	}
	switch label {
	case "route", "route_id":
		o.route = under("routes/", k.routeID)
	case "service", "service_id":
		o.service = under("services/", k.serviceID)
	case "consumer":
		o.consumer = under("consumers/", k.consumer)
	}
}

// Gone implements meter.Owner.
func (o *owner) Gone() bool {
	gone := func(object string) bool { return object != "" && !o.exists(object) }
	return gone(o.route) || gone(o.service) || gone(o.consumer)
}

// text is b as a string, for as long as b is not written to.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
