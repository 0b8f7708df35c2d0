package opentelemetry

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"net"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"weir/internal/plugin"
)

// placeOf takes a collector's address apart: its host and port, and what a URL has
// after them; secure: it is an https URL.
func placeOf(address string) (host, path string, secure bool) {
	rest, secure := strings.CutPrefix(address, "https://")
	host, path, _ = strings.Cut(strings.TrimPrefix(rest, "http://"), "/")
	return host, strings.TrimRight("/"+path, "/"), secure
}

// ids makes the ids of traces and spans: of a trace the one that the request
// brings, if it is to be used.
type ids struct{}

type requestID struct{}

func (ids) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	if given, ok := ctx.Value(requestID{}).(trace.TraceID); ok {
		t = given
	} else {
		random(t[:])
	}
	random(s[:])
	return t, s
}

func (ids) NewSpanID(context.Context, trace.TraceID) (s trace.SpanID) {
	random(s[:])
	return s
}

func random(b []byte) { _, _ = crand.Read(b) } // it does not fail

// A request is what is remembered of a traced request.
type request struct {
	ctx     context.Context
	span    trace.Span
	proxied time.Time // when the first upstream was chosen
	answer  time.Time // when the head of the answer was known
}

func (t *tracing) begin(c *plugin.Ctx) *plugin.Reply {
	ctx := propagator.Extract(context.Background(), carrier{c})
	if id, ok := idOf(c); ok && t.fromRequestID {
		ctx = context.WithValue(ctx, requestID{}, id)
	}
	ctx, span := t.tracer.Start(ctx, spanName(c), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(c.Start))
	propagator.Inject(ctx, carrier{c})
	if t.setVariables {
		setVariables(c, span.SpanContext())
	}
	if !span.IsRecording() {
		return nil
	}
	span.SetAttributes(attributesOf(c)...)
	t.addOwn(c, span)
	c.SetState(t, &request{ctx: ctx, span: span})
	return nil
}

// idOf is the trace's id that the request's X-Request-Id is.
func idOf(c *plugin.Ctx) (id trace.TraceID, ok bool) {
	text, _ := c.Header("X-Request-Id")
	text = strings.ReplaceAll(text, "-", "")
	if len(text) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(text))
	return id, err == nil && id.IsValid()
}

// productSpan is the name of requests to 3scale products, APIcast's for all.
const productSpan = "apicast"

func spanName(c *plugin.Ctx) string {
	if c.Product != nil {
		return productSpan
	}
	if c.MatchedPath == "" {
		return strings.Clone(c.Request.Method)
	}
	return c.Request.Method + " " + c.MatchedPath
}

func setVariables(c *plugin.Ctx, s trace.SpanContext) {
	traceID, spanID := s.TraceID().String(), s.SpanID().String()
	flags := "00"
	if s.IsSampled() {
		flags = "01"
	}
	c.SetVar("opentelemetry_context_traceparent", "00-"+traceID+"-"+spanID+"-"+flags)
	c.SetVar("opentelemetry_trace_id", traceID)
	c.SetVar("opentelemetry_span_id", spanID)
}

func attributesOf(c *plugin.Ctx) []attribute.KeyValue {
	host := c.Request.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	agent, _ := c.Header("User-Agent")
	list := []attribute.KeyValue{
		text("net.host.name", host), text("http.method", c.Request.Method), attribute.String("http.scheme", c.Scheme),
		text("http.target", c.Request.Target), text("http.user_agent", agent),
		text("http.request.method", c.Request.Method), attribute.String("url.scheme", c.Scheme), text("url.path", c.Path), text("user_agent.original", agent),
	}
	if c.Product != nil {
		return append(list, text("original_request_uri", c.Scheme+"://"+host+c.Request.Target))
	}
	if r := c.Route; r != nil {
		list = append(list, attribute.String("apisix.route_id", r.ID), attribute.String("apisix.route_name", r.Name), attribute.String("http.route", c.MatchedPath))
		if r.ServiceID != "" {
			list = append(list, attribute.String("apisix.service_id", r.ServiceID), attribute.String("apisix.service_name", r.ServiceName))
		}
	}
	return list
}

// addOwn adds the attributes that the configuration names.
func (t *tracing) addOwn(c *plugin.Ctx, span trace.Span) {
	for _, v := range t.variables {
		if value, ok := v.value.Value(c); ok {
			span.SetAttributes(text(v.name, value))
		}
	}
	for _, h := range t.headers {
		for _, f := range c.Request.Header.Fields() {
			name := strings.ToLower(f.Name)
			if !f.Dropped && (name == h.name || h.begins && strings.HasPrefix(name, h.name)) {
				span.SetAttributes(text(name, f.Value))
			}
		}
	}
}

func (t *tracing) of(c *plugin.Ctx) *request {
	r, _ := c.State(t).(*request)
	return r
}

func (t *tracing) proxied(c *plugin.Ctx) *plugin.Reply {
	if r := t.of(c); r != nil && r.proxied.IsZero() {
		r.proxied = t.env.Now()
	}
	return nil
}

func (t *tracing) answered(c *plugin.Ctx) {
	if r := t.of(c); r != nil {
		r.answer = t.env.Now()
	}
}

// end tells of the phases and the upstream's tries, and ends the span.
func (t *tracing) end(c *plugin.Ctx) {
	r := t.of(c)
	if r == nil {
		return
	}
	sent := &c.Sent
	at := c.Start
	if !r.proxied.IsZero() {
		t.child(r, "weir.phase.request", at, r.proxied)
		t.tries(c, r)
	}
	if !r.answer.IsZero() && !sent.End.Before(r.answer) {
		t.child(r, "weir.phase.response", r.answer, sent.End)
	}
	r.span.SetAttributes(
		attribute.Int("http.status_code", sent.Status), attribute.Int("http.response.status_code", sent.Status),
		attribute.String("apisix.response_source", sent.Source.String()),
	)
	if sent.Status >= 500 {
		r.span.SetStatus(codes.Error, "upstream response status: "+strconv.Itoa(sent.Status))
	}
	r.span.End(trace.WithTimestamp(sent.End))
}

// tries are one behind the other from when the first began.
func (t *tracing) tries(c *plugin.Ctx, r *request) {
	at := r.proxied
	for i := range c.Sent.Tries {
		try := &c.Sent.Tries[i]
		end := at.Add(max(try.Total, try.Header))
		t.child(r, "weir.upstream", at, end,
			text("server.address", try.Addr), text("url.scheme", try.Scheme), attribute.Int("http.response.status_code", try.Status),
			attribute.Int64("weir.connect_ns", int64(try.Connect)), attribute.Int64("weir.header_ns", int64(try.Header)))
		at = end
	}
}

func (t *tracing) child(r *request, name string, from, to time.Time, attributes ...attribute.KeyValue) {
	_, span := t.tracer.Start(r.ctx, name, trace.WithTimestamp(from), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(to))
}
