package fapi

import (
	"regexp"
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
	"weir/internal/wire"
)

func compiled(t *testing.T, config string) plugin.Phases {
	t.Helper()
	ph, err := Policy.Compile([]byte(config), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	return ph
}

func TestInteraction(t *testing.T) {
	ph := compiled(t, `{}`)
	if ph.Access != nil {
		t.Error("what is not checked costs")
	}
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	given := map[string]bool{}
	for _, tc := range []struct{ asked, answered, want string }{
		{"abc", "", "abc"}, {"abc", "blah", "abc"}, {"", "blah", "blah"}, {"", "", ""}, {"", "", ""},
	} {
		c := plugintest.NewCtx("/")
		if tc.asked != "" {
			c.Request.Header.Add("X-FAPI-Interaction-ID", tc.asked)
		}
		c.Response = &wire.Response{Status: 200}
		if tc.answered != "" {
			c.Response.Header.Add("X-Fapi-Interaction-Id", tc.answered)
		}
		ph.Header(c)
		got, _ := c.Response.Header.Get("x-fapi-interaction-id")
		if tc.want == "" && (!uuid.MatchString(got) || given[got]) || tc.want != "" && got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
		given[got] = true
	}
}

func TestCustomer(t *testing.T) {
	const name = "x-fapi-customer-ip-address"
	ph := compiled(t, `{"validate_x_fapi_customer_ip_address":true}`)
	for _, tc := range []struct {
		fields []string
		ok     bool
	}{
		{nil, true},
		{[]string{"192.168.0.1"}, true}, {[]string{"2001:db8::1"}, true}, {[]string{"[::1]"}, true},
		{[]string{"something"}, false}, {[]string{""}, false}, {[]string{"1.2.3.4:80"}, false}, {[]string{"[1.2.3.4]"}, false},
		{[]string{"[::1"}, false}, {[]string{"fe80::1%eth0"}, false}, {[]string{"1.2.3.4", "1.2.3.4"}, false}, {[]string{"1.2.3.4, 1.2.3.4"}, false},
	} {
		c := plugintest.NewCtx("/")
		for _, f := range tc.fields {
			c.Request.Header.Add(name, f)
		}
		r := plugintest.Send(ph, c)
		if (r == nil) != tc.ok || r != nil && (r.Status != 403 || string(r.Body) != `{"error": "invalid_request"}`) {
			t.Errorf("%q: %+v", tc.fields, r)
		}
	}
}

// TestBound: whatever the spelling, without a certificate no token passes.
func TestBound(t *testing.T) {
	for config, open := range map[string]bool{
		`{"validate_oauth2_certificate_bound_access_token":true}`:  false,
		`{"validate_oauth2_certificate_bound_access_token ":true}`: false,
		`{"validate_oauth2_certificate_bound_access_token":false}`: true,
	} {
		ph := compiled(t, config)
		c := plugintest.NewCtx("/")
		(&threescale.Product{Product: new(model.Product)}).Begin(c)
		threescale.Of(c).Token = &threescale.Token{Claims: map[string]any{"cnf": map[string]any{"x5t#S256": "x"}}}
		r := plugintest.Send(ph, c)
		if (r == nil) != open || r != nil && (r.Status != 401 || string(r.Body) != `{"error": "invalid_token"}`) {
			t.Errorf("%s: %+v", config, r)
		}
	}
	if !Policy.Guard {
		t.Error("no guard")
	}
}
