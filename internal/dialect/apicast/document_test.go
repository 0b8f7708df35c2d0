package apicast

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNoConfiguration(t *testing.T) {
	for _, text := range []string{"", "\n", "null", " null\n"} {
		if d, err := Read([]byte(text)); d != nil || !errors.Is(err, ErrNoConfiguration) {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
}

func TestRead(t *testing.T) {
	second := time.Second
	for name, c := range map[string]struct {
		text, want string
		ttl        *time.Duration
		services   int
	}{
		"empty":       {text: `{}`},
		"all":         {text: `{"timestamp":"t","ttl":1,"provider_key":"k","services":[{}],"oidc":[null]}`, ttl: &second, services: 1},
		"ttl as text": {text: `{"ttl":"1"}`, ttl: &second},
		"null ttl":    {text: `{"ttl":null,"services":null}`},
		"Lua's lists": {text: `{"services":{},"oidc":{}}`},
		"a raw break": {text: "{\"services\":[{\"id\":\"a\nb\"}]}", services: 1},
		"no JSON":     {text: `not valid json`, want: "Expected value but found invalid token at character 1"},
		"a list":      {text: `[]`, want: "an object is expected, not a list"},
		"a text":      {text: `"x"`, want: "an object is expected, not a string"},
		"services":    {text: `{"services":{"a":1}}`, want: "services: a list is expected, not an object"},
		"ttl":         {text: `{"ttl":1.5}`, want: "ttl: a whole number is expected, not 1.5"},
	} {
		d, err := Read([]byte(c.text))
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case len(d.Services) != c.services || (d.TTL == nil) != (c.ttl == nil) || d.TTL != nil && *d.TTL != *c.ttl:
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestEntries(t *testing.T) {
	one := func(h string) bool { return strings.HasPrefix(h, "one") }
	for name, c := range map[string]struct {
		text   string
		filter Filter
		want   string // id: hosts, issuer of OIDC or "discover" and where
		left   string
	}{
		"defaults": {text: `{"services":[{}]}`, want: "default:localhost"},
		"hosts":    {text: `{"services":[{"id":1,"proxy":{"hosts":["A.example","b"]}},{"id":2,"proxy":{"hosts":[]}}]}`, want: "1:a.example,b 2:"},
		"twice": {text: `{"services":[{"id":1},{"id":"1","proxy":{"hosts":["x"]}},{"id":2}]}`,
			want: "1:localhost 2:localhost", left: "services[1]: service 1 is there already"},
		"no services":         {text: `{"services":[null,1,{"id":3}]}`, want: "?services[0]: an object is expected, not null ?services[1]: an object is expected, not 1 3:localhost"},
		"broken":              {text: `{"services":[{"id":3,"proxy":{"hosts":3}},{"id":{}}]}`, want: "3:! ?services[1]: id: a string is expected, not an object"},
		"broken and filtered": {text: `{"services":[null,{"id":2}]}`, filter: Filter{IDs: map[string]bool{"1": true}}, want: "?services[0]: an object is expected, not null"},
		"broken and none":     {text: `{"services":[null]}`, filter: Filter{None: true}},
		"by place": {text: `{"services":[{"id":1},{"id":2},{"id":3}],"oidc":[null,{"issuer":"b"},false]}`,
			want: "1:localhost 2:localhost(b) 3:localhost"},
		"by name": {text: `{"services":[{"id":1},{"id":2}],"oidc":[{"service_id":2,"issuer":"b"},{"service_id":"1","issuer":"a"}]}`,
			want: "1:localhost(a) 2:localhost(b)"},
		"a place that names another": {text: `{"services":[{"id":1},{"id":2}],"oidc":[{"service_id":9,"issuer":"z"}]}`,
			want: "1:localhost 2:localhost"},
		"filtered": {text: `{"services":[{"id":1},{"id":2}],"oidc":[{"issuer":"a"},{"issuer":"b"}]}`,
			filter: Filter{IDs: map[string]bool{"2": true}}, want: "2:localhost(b)"},
		"filtered by host": {text: `{"services":[{"id":1,"proxy":{"hosts":["x","one"]}},{"id":2,"proxy":{"hosts":["two"]}},{"id":3,"proxy":{"hosts":["y"]}}]}`,
			filter: Filter{IDs: map[string]bool{"3": true}, Host: one}, want: "1:x,one 3:y"},
		"duplicate of what is filtered": {text: `{"services":[{"id":1,"proxy":{"hosts":["two"]}},{"id":1,"proxy":{"hosts":["one"]}}]}`,
			filter: Filter{Host: one}, want: "1:one"},
		"none": {text: `{"services":[{"id":1}]}`, filter: Filter{None: true}},
		"discovery": {text: `{"services":[{"id":1,"proxy":{"authentication_method":"oidc","oidc_issuer_endpoint":"http://i"}},
			{"id":2,"backend_version":"oidc","proxy":{"oidc_issuer_endpoint":"http://i"}},
			{"id":3,"backend_version":"oauth","proxy":{"oidc_issuer_endpoint":"http://i"}},
			{"id":4,"backend_version":"oidc","proxy":{"authentication_method":"1","oidc_issuer_endpoint":"http://i"}},
			{"id":5,"backend_version":"oidc","proxy":{"oidc_issuer_endpoint":"http://i"}}],"oidc":[null,null,null,null,{"service_id":5}]}`,
			want: "1:localhost<http://i> 2:localhost<http://i> 3:localhost 4:localhost 5:localhost()"},
	} {
		d, err := Read([]byte(c.text))
		if err != nil {
			t.Fatal(name, err)
		}
		kept, left := d.Entries(c.filter)
		var got []string
		for _, e := range kept {
			got = append(got, describe(e))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: got %q, want %q", name, s, c.want)
		}
		if s := fmt.Sprint(errors.Join(left...)); c.left == "" && len(left) > 0 || !strings.Contains(s, c.left) && c.left != "" {
			t.Errorf("%s: left out %q, want %q", name, s, c.left)
		}
	}
}

func describe(e *Entry) string {
	if e.Unread != nil {
		return "?" + e.Unread.Error()
	}
	s := e.ID + ":" + strings.Join(e.Hosts, ",")
	if e.Fault != nil {
		s += "!"
	}
	if e.OIDC != nil {
		var o struct{ Issuer string }
		if err := json.Unmarshal(e.OIDC, &o); err != nil {
			return err.Error()
		}
		s += "(" + o.Issuer + ")"
	}
	if e.Issuer != "" {
		s += "<" + e.Issuer + ">"
	}
	return s
}

func TestProduct(t *testing.T) {
	d, err := Read([]byte(`{"services":[{"id":7,"proxy":{"hosts":["h"]}}],"oidc":[{"issuer":"i","config":{"id_token_signing_alg_values_supported":["RS256"]},"keys":{"k":{"kty":"RSA"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	kept, _ := d.Entries(Filter{})
	p, err := Decode(kept[0].Product(kept[0].OIDC))
	if err != nil {
		t.Fatal(err)
	}
	if p.ID != "7" || !slices.Equal(p.Hosts, []string{"h"}) || p.OIDC == nil || p.OIDC.Issuer != "i" || len(p.OIDC.Keys) != 1 {
		t.Errorf("%+v", p)
	}
}

// What is read of a document agrees with what its products are decoded to.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"services":[{"id":1,"proxy":{"hosts":["A"],"policy_chain":[{"name":"apicast.policy.x"}],"proxy_rules":[{"metric_system_name":"m","delta":"2"}]}}],"oidc":[{"service_id":1}]}`,
		`{"services":[{"id":"x","backend_version":2,"proxy":{"api_backend":null,"error_status_no_match":"405"}}],"ttl":3}`, "{\"services\":[\"\n\"]}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := Read(raw)
		if err != nil {
			return
		}
		kept, _ := d.Entries(Filter{})
		for _, e := range kept {
			if e.Unread != nil {
				continue
			}
			p, err := Decode(e.Product(e.OIDC))
			if e.Fault != nil && err == nil {
				t.Errorf("%s has a fault and is decoded", e.Service)
			}
			if err == nil && (p.ID != e.ID || !slices.Equal(p.Hosts, e.Hosts)) {
				t.Errorf("%s: %s %q, decoded %s %q", e.Service, e.ID, e.Hosts, p.ID, p.Hosts)
			}
		}
	})
}
