package health

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"weir/internal/schema"
)

// Checks says how nodes are checked. It is not changed once it is made.
type Checks struct {
	Active  Active
	Passive Passive
}

// Active says how nodes are asked.
type Active struct {
	Type        string // http, https, tcp
	Timeout     time.Duration
	Concurrency int    // nodes asked at the same time
	Host        string // Host header and TLS server name instead of the node's; empty: the node's
	Port        int    // instead of the node's; 0: the node's
	Method      string
	Path        string
	Body        string
	Verify      bool     // the certificate, with type https
	Headers     []string // complete lines
	Healthy     Rule
	Unhealthy   Rule

	Interval struct{ Healthy, Unhealthy time.Duration } // between two questions, by the node's state
}

// Passive says which answers to requests count. Without passive checks all
// thresholds are 0.
type Passive struct{ Healthy, Unhealthy Rule }

// A Rule says what makes a node healthy, or unhealthy. A threshold of 0 is never
// reached and what it is for not counted.
type Rule struct {
	Statuses  Statuses
	Successes int
	HTTP      int // failures by status
	TCP       int // failures of the connection
	Timeouts  int
}

// Statuses is a set of HTTP status codes.
type Statuses [10]uint64

// Has reports whether the set contains the status.
func (s *Statuses) Has(status int) bool {
	return 0 <= status && status < 64*len(s) && s[status/64]&(1<<(status%64)) != 0
}

func statuses(list []int) (s Statuses) {
	for _, code := range list {
		if 0 <= code && code < 64*len(s) {
			s[code/64] |= 1 << (code % 64)
		}
	}
	return s
}

// checksDoc is an upstream's checks as stored.
type checksDoc struct {
	Active  *activeDoc `json:"active"`
	Passive *struct {
		Healthy   *ruleDoc `json:"healthy"`
		Unhealthy *ruleDoc `json:"unhealthy"`
	} `json:"passive"`
}

type activeDoc struct {
	Type        string   `json:"type"`
	Timeout     *float64 `json:"timeout"`
	Concurrency *float64 `json:"concurrency"`
	Host        string   `json:"host"`
	Port        float64  `json:"port"`
	Method      string   `json:"http_method"`
	Path        string   `json:"http_path"`
	Body        string   `json:"http_req_body"`
	Verify      *bool    `json:"https_verify_certificate"`
	Headers     []string `json:"req_headers"`
	Healthy     *ruleDoc `json:"healthy"`
	Unhealthy   *ruleDoc `json:"unhealthy"`
}

type ruleDoc struct {
	Interval  *float64 `json:"interval"`
	Statuses  []int    `json:"http_statuses"`
	Successes *float64 `json:"successes"`
	HTTP      *float64 `json:"http_failures"`
	TCP       *float64 `json:"tcp_failures"`
	Timeouts  *float64 `json:"timeouts"`
}

// Parse reads the checks of an upstream document and fills in the defaults. The
// document is taken to satisfy its schema.
func Parse(raw []byte) (*Checks, error) {
	var d checksDoc
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("checks: %w", err)
	}
	c := new(Checks)
	if d.Active == nil {
		d.Active = new(activeDoc)
	}
	c.Active = d.Active.decode()
	if p := d.Passive; p != nil {
		c.Passive.Healthy = p.Healthy.rule(Rule{Successes: 5}, []int{
			200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304, 305, 306, 307, 308,
		})
		c.Passive.Unhealthy = p.Unhealthy.rule(Rule{TCP: 2, Timeouts: 7, HTTP: 5}, []int{429, 500, 503})
	}
	return c, nil
}

func (d *activeDoc) decode() Active {
	a := Active{
		Type: cmp.Or(d.Type, "http"), Timeout: schema.Seconds(number(d.Timeout, 1)),
		Concurrency: max(1, int(number(d.Concurrency, 10))),
		Host:        d.Host, Port: int(d.Port),
		Method: cmp.Or(d.Method, "GET"), Path: cmp.Or(d.Path, "/"), Body: d.Body,
		Verify: d.Verify == nil || *d.Verify, Headers: d.Headers,
		Healthy: d.Healthy.rule(Rule{Successes: 2}, []int{200, 302}),
		Unhealthy: d.Unhealthy.rule(Rule{HTTP: 5, TCP: 2, Timeouts: 3},
			[]int{429, 404, 500, 501, 502, 503, 504, 505}),
	}
	a.Interval.Healthy, a.Interval.Unhealthy = d.Healthy.interval(), d.Unhealthy.interval()
	return a
}

// rule replaces what d says in the defaults.
func (d *ruleDoc) rule(r Rule, codes []int) Rule {
	if d != nil {
		r.Successes = int(number(d.Successes, float64(r.Successes)))
		r.HTTP = int(number(d.HTTP, float64(r.HTTP)))
		r.TCP = int(number(d.TCP, float64(r.TCP)))
		r.Timeouts = int(number(d.Timeouts, float64(r.Timeouts)))
		if d.Statuses != nil {
			codes = d.Statuses
		}
	}
	r.Statuses = statuses(codes)
	return r
}

// interval is a second unless the document says otherwise, and never less.
func (d *ruleDoc) interval() time.Duration {
	if d == nil {
		return time.Second
	}
	return max(time.Second, schema.Seconds(number(d.Interval, 1)))
}

func number(n *float64, other float64) float64 {
	if n == nil {
		return other
	}
	return *n
}
