package apicast

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/document"
	"weir/internal/schema"
)

// A Document is a whole configuration: what a file holds, and what a portal
// answers (apicast.md §2).
type Document struct {
	Timestamp   string
	ProviderKey string

	// TTL replaces the configured time that this configuration is kept for; nil:
	// it does not.
	TTL *time.Duration

	Services []json.RawMessage // parts of the text; nil: the document does not say
	OIDC     []json.RawMessage // by place in Services; may be shorter
}

// MaxServices is how many services a configuration may have.
const MaxServices = 250_000

// ErrTooMany says that it has more.
var ErrTooMany = fmt.Errorf("there are more than %d services in it", MaxServices)

// ErrNoConfiguration says that a text stands for no configuration at all: it is
// empty, or null.
var ErrNoConfiguration = errors.New("there is no configuration in it")

type documentDoc struct {
	Timestamp   text     `json:"timestamp"`
	ProviderKey text     `json:"provider_key"`
	TTL         *seconds `json:"ttl"`
	Services    list     `json:"services"`
	OIDC        list     `json:"oidc"`
}

// Read reads a document, which has the text from then on. A syntax error is told
// in the words of lua-cjson.
func Read(raw []byte) (*Document, error) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		return nil, ErrNoConfiguration
	}
	raw, err := document.Strict(raw)
	if err != nil {
		return nil, err
	}
	var d documentDoc
	if err := decode(raw, &d); err != nil {
		return nil, err
	}
	out := &Document{Timestamp: string(d.Timestamp), ProviderKey: string(d.ProviderKey)}
	if d.TTL != nil {
		out.TTL = (*time.Duration)(d.TTL)
	}
	w := document.WalkText(raw)
	w.Object(func(name string) bool {
		into := map[string]*[]json.RawMessage{"services": &out.Services, "oidc": &out.OIDC}[name]
		value, ok := w.Value()
		if into != nil {
			*into, err = items(value)
		}
		return ok && err == nil
	})
	return out, err
}

// items are those of a list.
func items(value []byte) (all []json.RawMessage, err error) {
	if !bytes.Equal(value, []byte("null")) {
		all = []json.RawMessage{}
	}
	w := document.WalkText(value)
	w.Array(func() bool {
		item, _ := w.Value()
		if len(all) == MaxServices {
			err = ErrTooMany
			return false
		}
		all = append(all, item)
		return true
	})
	return all, err
}

// Unmarshal is json.Unmarshal for what lua-cjson reads: it takes control
// characters in strings, too, and says in lua-cjson's words what is no JSON.
func Unmarshal(raw []byte, v any) error {
	err := json.Unmarshal(raw, v)
	if _, syntax := errors.AsType[*json.SyntaxError](err); !syntax {
		return worded(err)
	}
	strict, err := document.Strict(raw)
	if err != nil {
		return err
	}
	return decode(strict, v)
}

// seconds is a JSON number, perhaps written as text.
type seconds time.Duration

func (s *seconds) UnmarshalJSON(b []byte) error {
	var n whole
	if err := n.UnmarshalJSON(b); err != nil {
		return err
	}
	*s = seconds(schema.Seconds(n))
	return nil
}

// list checks that a value is a JSON array, or an empty object, which is how Lua
// writes an empty array, or null.
type list struct{}

func (*list) UnmarshalJSON(b []byte) error {
	if b[0] == '[' || b[0] == 'n' || b[0] == '{' && len(bytes.TrimSpace(b[1:len(b)-1])) == 0 {
		return nil
	}
	return json.Unmarshal(b, new([]struct{}))
}

// An Entry is a service of a document and what belongs to it.
type Entry struct {
	ID      string
	Hosts   []string        // lower case
	Service json.RawMessage // as it is in the document; a part of alone
	OIDC    json.RawMessage // nil: the document has none

	// Issuer is where the OIDC part is to be discovered, because the document has
	// none; empty: it is not wanted.
	Issuer string

	// Fault, if not nil, is why the service cannot run; it has an id at least.
	Fault error

	// Unread, if not nil, is why nothing of the service can be read. Service is then
	// what tells it from others, not a document, and ID is empty unless whoever
	// asked for it knows.
	Unread error

	alone json.RawMessage // the Product without an OIDC part
}

const opening = `{"service":`

// newEntry is the entry of a service, whose text it copies.
func newEntry(id string, service []byte) *Entry {
	alone := append(append(append(make([]byte, 0, len(opening)+len(service)+1), opening...), service...), '}')
	return &Entry{ID: id, Service: alone[len(opening) : len(alone)-1 : len(alone)-1], alone: alone}
}

// Product is the JSON text of the Product with this OIDC part; nil: it has none.
func (e *Entry) Product(oidc json.RawMessage) json.RawMessage {
	if oidc == nil {
		return e.alone
	}
	return slices.Concat(e.alone[:len(e.alone)-1], []byte(`,"oidc":`), oidc, []byte(`}`))
}

type entryDoc struct {
	ID             text `json:"id"`
	BackendVersion text `json:"backend_version"`
	Proxy          *struct {
		Hosts          []text `json:"hosts"`
		Authentication text   `json:"authentication_method"`
		OIDCIssuer     text   `json:"oidc_issuer_endpoint"`
	} `json:"proxy"`
}

// Unread is the entry of a service that ReadEntry cannot read, and why. It copies
// its text, which the name that its place has for it is put before, if any.
func Unread(name string, service []byte, why error) *Entry {
	return &Entry{Service: slices.Concat([]byte(name), []byte(" "), service), Unread: why}
}

// ReadEntry reads a service of a document. It does not keep the text.
func ReadEntry(service json.RawMessage) (*Entry, error) {
	var d entryDoc
	if !isObject(service) {
		return nil, fmt.Errorf("an object is expected, not %.20s", service)
	}
	if err := decode(service, &d); err != nil {
		var named struct {
			ID text `json:"id"`
		}
		if json.Unmarshal(service, &named) != nil || named.ID == "" {
			return nil, err
		}
		e := newEntry(string(named.ID), service)
		e.Fault = err
		return e, nil
	}
	e := newEntry(cmp.Or(string(d.ID), "default"), service)
	if d.Proxy == nil || d.Proxy.Hosts == nil {
		e.Hosts = []string{"localhost"}
	}
	if d.Proxy == nil {
		return e, nil
	}
	for _, h := range d.Proxy.Hosts {
		e.Hosts = append(e.Hosts, strings.ToLower(string(h)))
	}
	if cmp.Or(d.Proxy.Authentication, d.BackendVersion) == "oidc" {
		e.Issuer = string(d.Proxy.OIDCIssuer)
	}
	return e, nil
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '{'
}

// Entries are the services that f keeps, in order, each with its part of the OIDC
// list: the entry that names the service, else the one at the same place that
// names none. What is no service is an entry that is Unread. left says what was
// left out, and why: every service after the first of one id.
func (d *Document) Entries(f Filter) (kept []*Entry, left []error) {
	named := map[string]json.RawMessage{}
	for _, raw := range d.OIDC {
		if id := serviceOf(raw); id != "" && named[id] == nil {
			named[id] = raw
		}
	}
	seen := map[string]bool{}
	for i, raw := range d.Services {
		e, err := ReadEntry(raw)
		switch {
		case err != nil:
			if e = Unread("", raw, fmt.Errorf("services[%d]: %w", i, err)); f.Keeps(e) {
				kept = append(kept, e)
			}
			continue
		case seen[e.ID]:
			left = append(left, fmt.Errorf("services[%d]: service %s is there already", i, e.ID))
			continue
		case !f.Keeps(e):
			continue
		}
		seen[e.ID] = true
		if oidc := named[e.ID]; oidc != nil {
			e.OIDC = bytes.Clone(oidc)
		} else if i < len(d.OIDC) && isObject(d.OIDC[i]) && serviceOf(d.OIDC[i]) == "" {
			e.OIDC = bytes.Clone(d.OIDC[i])
		}
		if e.OIDC != nil {
			e.Issuer = ""
		}
		kept = append(kept, e)
	}
	return kept, left
}

// serviceOf is the service that an OIDC entry names; empty: none.
func serviceOf(raw json.RawMessage) string {
	var d struct {
		ServiceID text `json:"service_id"`
	}
	if !isObject(raw) || json.Unmarshal(raw, &d) != nil {
		return ""
	}
	return string(d.ServiceID)
}

// A Filter says which services of a document are served (apicast.md §3.4). The
// zero Filter keeps all.
type Filter struct {
	IDs  map[string]bool        // APICAST_SERVICES_LIST
	Host func(host string) bool // APICAST_SERVICES_FILTER_BY_URL; nil: unset
	None bool                   // that expression is broken: nothing is served
}

// Keeps says that a service is served: its id is listed or a host matches. One
// that cannot be read may be any.
func (f *Filter) Keeps(e *Entry) bool {
	if f.None {
		return false
	}
	if e.Unread != nil && e.ID == "" {
		return true
	}
	if f.Host == nil && len(f.IDs) == 0 || f.IDs[e.ID] {
		return true
	}
	if f.Host != nil {
		for _, h := range e.Hosts {
			if f.Host(h) {
				return true
			}
		}
	}
	return false
}
