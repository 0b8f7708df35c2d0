// Package grpctranscode lets clients of plain HTTP call gRPC services: arguments
// or a JSON body become the request's message, the answer's becomes JSON.
package grpctranscode

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"weir/internal/document"
	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/protofile"
	"weir/internal/wire"
)

const name = "grpc-transcode"

// Plugin is grpc-transcode as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{Name: name, Priority: 506, Doc: "Turns plain HTTP requests into gRPC calls, and the answers into JSON."},
	compile,
	plugin.Proto(protoID),
)

// Config is the configuration on a route.
type Config struct {
	ProtoID          plugin.ObjectID `json:"proto_id"            schema:"required"               doc:"Id of the proto object that describes the service."`
	Service          string          `json:"service"             schema:"required,description=the grpc service name"              doc:"Full name of the service."`
	Method           string          `json:"method"              schema:"required,description=the method name in the grpc service." doc:"Name of its method."`
	Deadline         float64         `json:"deadline"            schema:"default=0"              doc:"Milliseconds that the service is given (grpc-timeout); 0: it is told none."`
	Options          options         `json:"pb_option"           doc:"What JSON looks like: names or numbers of enums, forms of large integers, fields without a value."`
	ShowStatusInBody bool            `json:"show_status_in_body" schema:"default=false"          doc:"Answer a failed call with its status as JSON."`
	StatusDetailType string          `json:"status_detail_type"  doc:"Message type of the details in that status; without it they stay encoded."`
	MaxRespBodySize  int             `json:"max_resp_body_size"  schema:"default=67108864,min=1" doc:"Bytes of an answer that are read; what is longer is cut off."`
}

func protoID(raw json.RawMessage) string {
	var c struct {
		ProtoID plugin.ObjectID `json:"proto_id"`
	}
	if json.Unmarshal(raw, &c) != nil {
		return "" // it is refused
	}
	return string(c.ProtoID)
}

// A transcoder is a compiled configuration.
type transcoder struct {
	*Config
	path    string
	timeout string // grpc-timeout; empty: none
	in, out protoreflect.MessageDescriptor
	detail  protoreflect.MessageDescriptor // nil: not known
	form    form
	env     plugin.Env
}

// Answers in place of the upstream's.
var (
	broken   = &plugin.Reply{Status: 503}
	bad      = &plugin.Reply{Status: 400}
	tooLarge = &plugin.Reply{Status: 413}
)

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	t := &transcoder{Config: c, path: "/" + c.Service + "/" + c.Method, form: c.Options.form(), env: env}
	if c.Deadline > 0 {
		t.timeout = strconv.FormatFloat(c.Deadline, 'f', -1, 64) + "m"
	}
	if err := t.bind(); err != nil {
		// The object may come later; APISIX takes the configuration, too.
		env.Log.Error("grpc-transcode cannot run", "owner", env.Owner, "err", err)
		return plugin.Phases{Access: func(*plugin.Ctx) *plugin.Reply { return broken }}, nil
	}
	return plugin.Phases{Access: t.access, Header: t.header, Body: t.body}, nil
}

// bind finds the method's messages.
func (t *transcoder) bind() error {
	content, ok := t.env.Proto(string(t.ProtoID))
	if !ok {
		return fmt.Errorf("failed to find proto by id: %s", t.ProtoID)
	}
	compiled := plugin.Keep(t.env, fmt.Sprintf("%s %x", name, sha256.Sum256([]byte(content))), func() protoFiles {
		files, err := protofile.Compile(content)
		return protoFiles{files, err}
	})
	if compiled.err != nil {
		return fmt.Errorf("proto %s: %w", t.ProtoID, compiled.err)
	}
	found, _ := compiled.files.FindDescriptorByName(protoreflect.FullName(t.Service))
	service, _ := found.(protoreflect.ServiceDescriptor)
	if service == nil {
		return fmt.Errorf("Undefined service method: %s/%s end", t.Service, t.Method) //lint:ignore ST1005 APISIX's words in the log
	}
	method := service.Methods().ByName(protoreflect.Name(t.Method))
	if method == nil {
		return fmt.Errorf("Undefined service method: %s/%s end", t.Service, t.Method) //lint:ignore ST1005 APISIX's words in the log
	}
	t.in, t.out = method.Input(), method.Output()
	if t.StatusDetailType != "" {
		found, _ = compiled.files.FindDescriptorByName(protoreflect.FullName(t.StatusDetailType))
		t.detail, _ = found.(protoreflect.MessageDescriptor)
	}
	return nil
}

// protoFiles are a compiled proto object, which routes share.
type protoFiles struct {
	files *protoregistry.Files
	err   error
}

// largestBody bounds a request that is made into a message, in bytes.
const largestBody = 64 << 20

func (t *transcoder) access(c *plugin.Ctx) *plugin.Reply {
	given, err := arguments(c)
	if errors.Is(err, plugin.ErrBodyTooLarge) {
		return tooLarge
	}
	var message []byte
	if err == nil {
		message, err = encode(t.in, given)
	}
	if err != nil {
		t.env.Log.Error("grpc-transcode: failed to encode request data to protobuf", "owner", t.env.Owner, "err", err)
		return bad
	}
	c.To.Method, c.To.Target, c.To.Body = "POST", t.path, message
	c.SetHeader("Content-Type", "application/grpc")
	c.DelHeader("Content-Encoding")
	if t.timeout != "" {
		c.SetHeader("grpc-timeout", t.timeout)
	}
	return nil
}

// arguments are what the client gives: its JSON body, a form or the query.
func arguments(c *plugin.Ctx) (*document.Value, error) {
	method := c.Request.Method
	if isJSON(&c.Request.Header) && (method == "POST" || method == "PUT" || method == "PATCH") {
		body, err := c.Buffer.Body(largestBody)
		if err != nil {
			return nil, err
		}
		if v, err := document.Parse(body); err == nil && v.Is(document.Object) {
			return v, nil
		}
	}
	if method == "POST" {
		body, err := c.Buffer.Body(largestBody)
		if err != nil {
			return nil, err
		}
		return expr.ParseForm(body), nil
	}
	return expr.ParseForm([]byte(c.RawQuery())), nil
}

// statuses are the answers to failed calls, by the status of gRPC.
var statuses = [...]int{1: 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401}

func (t *transcoder) header(c *plugin.Ctx) {
	h := &c.Response.Header
	if c.Response.Status >= 300 {
		return
	}
	c.BodyChanged()
	h.Set("Content-Type", "application/json")
	status, has := h.Get("grpc-status")
	if !has || status == "0" {
		h.Del("Trailer")
		h.Add("Trailer", "grpc-status")
		h.Add("Trailer", "grpc-message")
		return
	}
	c.Response.Status = 599
	if n, err := strconv.Atoi(status); err == nil && 0 < n && n < len(statuses) {
		c.Response.Status = statuses[n]
	}
}

func (t *transcoder) body(c *plugin.Ctx) plugin.BodyFilter {
	if c.Response.Status < 300 {
		_, web := c.Header("X-Grpc-Web")
		return &filter{limit: t.MaxRespBodySize, end: func(body []byte) []byte { return t.answer(body, web) }}
	}
	details, has := c.Response.Header.Get("grpc-status-details-bin")
	if !t.ShowStatusInBody || !has {
		return nil
	}
	text := t.failure(details)
	return &filter{end: func([]byte) []byte { return text }}
}

// answer is a message's bytes, framed unless grpc-web has taken that off, as JSON.
func (t *transcoder) answer(body []byte, web bool) []byte {
	if !web {
		body = body[min(frame, len(body)):]
	}
	text, err := decode(t.out, body, t.form)
	if err != nil {
		const words = "failed to decode response data by protobuf"
		t.env.Log.Error("grpc-transcode: "+words, "owner", t.env.Owner, "err", err)
		return []byte(words)
	}
	return text
}

// A filter collects a body and lets another take its place.
type filter struct {
	limit int // bytes that are kept
	kept  []byte
	end   func([]byte) []byte
}

// Write implements plugin.BodyFilter.
func (f *filter) Write(chunk []byte, last bool) []byte {
	f.kept = append(f.kept, chunk[:min(len(chunk), max(f.limit-len(f.kept), 0))]...)
	if !last {
		return nil
	}
	return f.end(f.kept)
}

func isJSON(h *wire.Header) bool {
	media, _ := h.Get("Content-Type")
	return strings.Contains(media, "application/json")
}
