// Package logentry makes the log entry of a request, as a JSON object in the
// shape of APISIX, and is what loggers have in common: their attributes, the
// bodies they look at, and the processor that sends their entries.
package logentry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"weir/internal/document"
	"weir/internal/expr"
	"weir/internal/plugin"
)

// A Format is a log format: a JSON object whose texts that begin with "$" are
// variables. nil: none is given.
type Format json.RawMessage

// JSONSchema implements schema.Describer.
func (Format) JSONSchema() []byte { return []byte(`{"type":"object"}`) }

// UnmarshalJSON implements json.Unmarshaler.
func (f *Format) UnmarshalJSON(raw []byte) error {
	*f = bytes.Clone(raw)
	return nil
}

// A Condition is a match expression.
type Condition json.RawMessage

// JSONSchema implements schema.Describer.
func (Condition) JSONSchema() []byte {
	return []byte(`{"type":"array","minItems":1,"items":{"type":"array"}}`)
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Condition) UnmarshalJSON(raw []byte) error {
	*c = bytes.Clone(raw)
	return nil
}

// compile compiles the condition of the named attribute; nil: there is none.
func (c Condition) compile(attribute string) (*expr.Expr, error) {
	if c == nil {
		return nil, nil
	}
	e, err := expr.Compile(json.RawMessage(c))
	if err != nil {
		return nil, fmt.Errorf("failed to validate the '%s' expression: %w", attribute, err)
	}
	return e, nil
}

// Formats are the attributes that say what an entry looks like. Plugins embed
// them in their configuration, where they count before those of the metadata.
type Formats struct {
	LogFormat      Format `json:"log_format"       doc:"The entry: an object, nested up to five levels; a text that begins with $ is a variable. Without it the entry is the full one."`
	LogFormatExtra Format `json:"log_format_extra" doc:"Members added to the full entry, in the form of log_format."`
}

// Bodies are the attributes about bodies in entries.
type Bodies struct {
	IncludeReqBody      bool      `json:"include_req_body"       schema:"default=false" doc:"Log the request's body."`
	IncludeReqBodyExpr  Condition `json:"include_req_body_expr"  doc:"Log it only if this match expression holds."`
	IncludeRespBody     bool      `json:"include_resp_body"      schema:"default=false" doc:"Log the response's body."`
	IncludeRespBodyExpr Condition `json:"include_resp_body_expr" doc:"Log it only if this match expression holds."`
	MaxReqBodyBytes     int       `json:"max_req_body_bytes"     schema:"default=524288,min=1" doc:"Log at most so many bytes of the request's body."`
	MaxRespBodyBytes    int       `json:"max_resp_body_bytes"    schema:"default=524288,min=1" doc:"Log at most so many bytes of the response's body."`
}

// An Entry makes the log entries of one configuration. It is immutable once it is
// used.
type Entry struct {
	// NoRoute is the route_id of requests that no route matched; empty: none.
	NoRoute string

	custom *object // instead of the full entry; nil: the full one
	extra  *object // added to the full entry; nil: nothing
	server []byte  // the full entry's server, as JSON

	bodies          Bodies
	reqIf, respIf   *expr.Expr
	fromBody        []expr.Var // variables that must be read before the request goes upstream
	reqBody         bool       // it is looked at, if reqIf holds
	reqBodyInFormat bool       // the format has it, whether or not reqIf holds
}

// Compile prepares entries for a plugin whose own formats are f and whose
// metadata has meta.
func Compile(f, meta Formats, bodies Bodies, env plugin.Env) (*Entry, error) {
	e := &Entry{bodies: bodies, server: server(env.Version)}
	var err error
	if e.reqIf, err = bodies.IncludeReqBodyExpr.compile("include_req_body_expr"); err != nil {
		return nil, err
	}
	if e.respIf, err = bodies.IncludeRespBodyExpr.compile("include_resp_body_expr"); err != nil {
		return nil, err
	}
	format, extra := f.LogFormat, f.LogFormatExtra
	if format == nil && hasMembers(meta.LogFormat) {
		format = meta.LogFormat
	}
	if extra == nil {
		extra = meta.LogFormatExtra
	}
	if format != nil {
		e.custom, err = e.format("log_format", format, env)
	} else if hasMembers(extra) {
		e.extra, err = e.format("log_format_extra", extra, env)
	}
	e.reqBody = e.reqBodyInFormat || bodies.IncludeReqBody && format == nil
	return e, err
}

func hasMembers(f Format) bool {
	v, err := document.Parse(f)
	return err == nil && len(v.Members) > 0
}

// Custom says that entries are what a log_format says.
func (e *Entry) Custom() bool { return e.custom != nil }

// Phases are what has to happen to a request besides logging it.
func (e *Entry) Phases() (p plugin.Phases) {
	if e.reqBody || len(e.fromBody) > 0 {
		p.Access = e.access
	}
	if e.bodies.IncludeRespBody {
		p.Body = e.tap
	}
	return p
}

// Make returns the entry of a request whose Sent is complete. It is called, or
// Append is, once per request.
func (e *Entry) Make(c *plugin.Ctx) []byte {
	b := buffers.Get().(*[]byte)
	*b = e.Append((*b)[:0], c)
	entry := bytes.Clone(*b)
	if cap(*b) <= largest {
		buffers.Put(b)
	}
	return entry
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Append is Make for an entry that is appended to dst.
func (e *Entry) Append(dst []byte, c *plugin.Ctx) []byte {
	s := e.take(c)
	if e.custom != nil {
		dst = e.appendCustom(dst, c, s)
	} else {
		dst = e.appendFull(dst, c, s)
	}
	s.free()
	return dst
}
