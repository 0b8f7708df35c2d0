// Package mocking answers in place of the upstream with an example.
package mocking

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: "mocking", Priority: 10900, Doc: "Answers in place of the upstream: with an example, or with random content of a given shape."},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	Delay       int                        `json:"delay"            schema:"default=0" doc:"Seconds to wait before the answer."`
	Status      int                        `json:"response_status"  schema:"default=200,min=100" doc:"Status of the answer."`
	ContentType string                     `json:"content_type"     schema:"default=application/json;charset=utf8" doc:"Content type of the answer: application/json, application/xml, text/xml, text/plain or text/html, perhaps with a charset."`
	Example     *string                    `json:"response_example" doc:"Body of the answer; variables are filled in."`
	Schema      map[string]json.RawMessage `json:"response_schema"  doc:"Shape of a random body: a JSON schema, where example gives a value; not looked at beside response_example. The body is JSON or XML. Beyond 1 MiB its arrays have one item."`
	MockHeader  bool                       `json:"with_mock_header" schema:"default=true" doc:"Say so in the header x-mock-by."`
	Headers     schema.Headers             `json:"response_headers" doc:"Headers to add to the answer; variables are filled in."`
}

// Constraints implements schema.Constrained.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.AtLeastOne([]string{"response_example"}, []string{"response_schema"})}
}

// A mock is a compiled configuration.
type mock struct {
	status  int
	delay   time.Duration
	header  [][2]string
	dynamic []header
	example *expr.Template
	shape   *shape // nil: the example
	xml     bool
	rand    func() float64
	log     func(msg string, args ...any)
	owner   string
	fixed   *plugin.Reply // nil: the body varies
}

type header struct {
	name  string
	value *expr.Template
}

// gone answers a request whose client does not wait any more.
var gone = plugin.Text(499, "")

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	media, _, _ := strings.Cut(c.ContentType, ";")
	m := &mock{
		status: c.Status, delay: schema.Seconds(max(c.Delay, 0)), rand: env.Rand, log: env.Log.Error, owner: env.Owner,
		header: [][2]string{{"Content-Type", c.ContentType}},
	}
	if c.MockHeader {
		m.header = append(m.header, [2]string{"x-mock-by", "Weir"})
	}
	text := ""
	switch media {
	case "application/xml", "text/xml":
		m.xml = true
	case "application/json", "text/plain", "text/html":
	default:
		//lint:ignore ST1005 APISIX's words, which the Admin API answers
		return plugin.Phases{}, errors.New("unsupported content type!")
	}
	var err error
	switch {
	case c.Example != nil:
		text = *c.Example
	case media != "text/html": // which nothing random is made for
		if m.shape, err = objectOf(c.Schema["properties"], 0); err != nil {
			return plugin.Phases{}, err
		}
	}
	if m.example, err = expr.Parse(text); err != nil {
		return plugin.Phases{}, err
	}
	for _, h := range c.Headers.Sorted() {
		value, err := expr.Parse(h[1])
		if err != nil {
			return plugin.Phases{}, err
		}
		m.dynamic = append(m.dynamic, header{h[0], value})
	}
	if m.shape == nil && m.dynamic == nil && m.example.Fixed() {
		m.fixed = plugin.Text(c.Status, text, m.header...)
	}
	return plugin.Phases{Access: m.access}, nil
}

func (m *mock) access(c *plugin.Ctx) *plugin.Reply {
	if m.delay > 0 && !c.Pause(m.delay) {
		return gone
	}
	if m.fixed != nil {
		return m.fixed
	}
	r := &plugin.Reply{Status: m.status, Header: m.header[:len(m.header):len(m.header)]}
	for i := range m.dynamic {
		r.Header = append(r.Header, [2]string{m.dynamic[i].name, m.dynamic[i].value.Value(c)})
	}
	if m.shape == nil {
		r.Body = m.example.Append([]byte{}, c)
		return r
	}
	body := m.random()
	// Examples in the schema may have variables.
	filled, err := expr.Parse(string(body))
	if err != nil {
		m.log("mocking: the body keeps its variables", "owner", m.owner, "err", err)
		r.Body = body
		return r
	}
	r.Body = filled.Append([]byte{}, c)
	return r
}

func (m *mock) random() []byte {
	if m.xml {
		return append(m.shape.appendXML([]byte("<data>\n"), 1, m.rand), "</data>\n"...)
	}
	return m.shape.appendJSON(nil, m.rand)
}

// objectOf is the shape of an object with the given properties, which lies in level others.
func objectOf(properties json.RawMessage, level int) (*shape, error) {
	s := &shape{kind: "object"}
	if properties == nil {
		return s, nil
	}
	var list map[string]json.RawMessage
	if err := json.Unmarshal(properties, &list); err != nil {
		return nil, fmt.Errorf("response_schema: properties: %w", err)
	}
	return s, s.addAll(list, level)
}
