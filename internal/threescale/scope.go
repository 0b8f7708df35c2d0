package threescale

import (
	"strings"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/threescale/liquid"
	"weir/internal/wire"
)

// A Vocabulary says what names in templates stand for.
type Vocabulary struct {
	// Text finds, when a template is compiled, what always is a text; nil, or a nil
	// result: it may be something else.
	Text func(name string) func(*plugin.Ctx) (string, bool)

	// Member is Text for a member of what has members.
	Member func(name, member string) func(*plugin.Ctx) (string, bool)

	// Value looks up what is no Text, when a template is rendered; nil: nothing has
	// that name.
	Value func(c *plugin.Ctx, name string) any
}

func (v *Vocabulary) text(name string) func(*plugin.Ctx) (string, bool) {
	if v.Text == nil {
		return nil
	}
	return v.Text(name)
}

func (v *Vocabulary) scope(c *plugin.Ctx) liquid.Scope {
	return func(name string) any {
		if of := v.text(name); of != nil {
			s, _ := of(c)
			return s
		}
		return v.Value(c, name)
	}
}

// common is what templates know of a request (apicast.md §5.2).
var common = &Vocabulary{Text: nginxValue, Member: member, Value: Context}

// ScopeOf is what templates know of a request. What a name stands for is looked up
// when it is asked for.
func ScopeOf(c *plugin.Ctx) liquid.Scope { return common.scope(c) }

// Names are those that ScopeOf has for every request, beside Request.Values.
func Names() []string {
	return []string{
		"uri", "path", "host", "remote_addr", "remote_port", "scheme", "server_addr", "server_port", "headers",
		"http_method", "request_id", "service", "usage", "credentials", "jwt", "original_request",
	}
}

// nginxValue finds the values that are texts; nil: it is another.
func nginxValue(name string) func(*plugin.Ctx) (string, bool) {
	switch name {
	case "uri", "path":
		return func(c *plugin.Ctx) (string, bool) { return Of(c).Path, true }
	case "http_method":
		return func(c *plugin.Ctx) (string, bool) { return c.Request.Method, true }
	case "host", "remote_addr", "remote_port", "scheme", "server_addr", "server_port", "request_id":
		return variable(name)
	}
	return nil
}

func variable(name string) func(*plugin.Ctx) (string, bool) {
	v, err := expr.Lookup(name)
	if err != nil {
		return func(*plugin.Ctx) (string, bool) { return "", false }
	}
	return v.Value
}

// member finds members of the request and the product that are texts.
func member(name, member string) func(*plugin.Ctx) (string, bool) {
	switch {
	case name == "headers":
		return variable("http_" + member)
	case name == "service" && member == "id":
		return func(c *plugin.Ctx) (string, bool) { return Of(c).Product.ID, true }
	}
	return nil
}

// Context is what a name stands for that is no text of nginx's: what the product
// and its policies know.
func Context(c *plugin.Ctx, name string) any {
	r := Of(c)
	switch name {
	case "headers":
		return headers{c}
	case "original_request":
		return originalRequest{c}
	case "service":
		return service{r.Product}
	case "usage":
		return r.Usage.fields()
	case "credentials":
		return r.Credentials.fields()
	case "jwt":
		if r.Token == nil {
			return nil
		}
		return r.Token.Claims
	}
	return r.Get(name)
}

// headers are a request's, by names in any case and with "_" for "-".
type headers struct{ c *plugin.Ctx }

func (h headers) Field(name string) any {
	if s, ok := variable("http_" + name)(h.c); ok {
		return s
	}
	return nil
}

func (h headers) Names() []string { return namesOf(&h.c.Request.Header) }

// HeadersOf are the headers of a request's answer, as templates see them.
func HeadersOf(c *plugin.Ctx) liquid.Lister { return answer{c} }

// answer has the headers of one, by names in any case and with "_" for "-".
type answer struct{ c *plugin.Ctx }

func (h answer) Field(name string) any {
	if s, ok := variable("sent_http_" + name)(h.c); ok {
		return s
	}
	return nil
}

func (h answer) Names() []string {
	if h.c.Response == nil {
		return nil
	}
	return namesOf(&h.c.Response.Header)
}

func namesOf(h *wire.Header) []string {
	var names []string
	fields := h.Fields()
	for i := range fields {
		if !fields[i].Dropped {
			names = append(names, strings.ToLower(fields[i].Name))
		}
	}
	return unique(names)
}

func unique(names []string) []string {
	seen := map[string]bool{}
	kept := names[:0]
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			kept = append(kept, n)
		}
	}
	return kept
}

// originalRequest is the request as it came.
type originalRequest struct{ c *plugin.Ctx }

func (o originalRequest) Field(name string) any {
	switch name {
	case "headers":
		return originalHeaders(o)
	case "host", "server_addr":
		s, _ := variable(name)(o.c)
		return s
	case "path":
		path, _, _ := strings.Cut(o.c.Request.Target, "?")
		return path
	case "query":
		if _, q, has := strings.Cut(o.c.Request.Target, "?"); has {
			return q
		}
	case "uri":
		return o.c.Path
	}
	return nil
}

func (o originalRequest) Names() []string {
	return []string{"headers", "host", "path", "query", "server_addr", "uri"}
}

// originalHeaders are those that the client sent, whatever became of them.
type originalHeaders struct{ c *plugin.Ctx }

func (h originalHeaders) Field(name string) any {
	if s, ok := expr.Original(name).Value(h.c); ok {
		return s
	}
	return nil
}

func (h originalHeaders) Names() []string {
	var names []string
	header := &h.c.Request.Header
	fields := header.Fields()
	for i := range len(fields) - len(header.Added()) {
		names = append(names, strings.ToLower(fields[i].Name))
	}
	return unique(names)
}

// service is the product, without what proves the gateway to the backend.
type service struct{ p *Product }

func (s service) Field(name string) any {
	p := s.p
	switch name {
	case "id":
		return p.ID
	case "system_name":
		return p.SystemName
	case "hosts":
		return texts(p.Hosts)
	case "backend_version":
		return p.BackendVersion
	case "authentication_method":
		return p.Authentication
	case "api_backend":
		return p.Product.Upstream
	case "hostname_rewrite":
		return p.HostnameRewrite
	case "backend":
		return map[string]any{"endpoint": p.Backend.URL, "host": p.Backend.Host}
	case "credentials":
		return map[string]any{
			"location": p.CredentialsLocation, "user_key": p.UserKeyName, "app_id": p.AppIDName, "app_key": p.AppKeyName,
		}
	}
	return nil
}

func (s service) Names() []string {
	return []string{
		"api_backend", "authentication_method", "backend", "backend_version", "credentials", "hostname_rewrite", "hosts", "id",
		"system_name",
	}
}

func texts(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

func (u Usage) fields() any {
	if u == nil {
		return nil
	}
	deltas, metrics := map[string]any{}, []any{}
	for _, n := range u {
		deltas[n.Metric] = n.Delta
		metrics = append(metrics, n.Metric)
	}
	return map[string]any{"deltas": deltas, "metrics": metrics}
}

func (c *Credentials) fields() any {
	m := map[string]any{}
	for name, v := range map[string]string{
		"user_key": c.UserKey, "app_id": c.AppID, "app_key": c.AppKey, "access_token": c.AccessToken,
	} {
		if v != "" {
			m[name] = v
		}
	}
	if len(m) == 0 {
		return nil
	}
	return m
}
