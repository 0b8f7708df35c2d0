package jwtclaimcheck

import (
	"testing"

	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	p := threescaletest.Product(t, nil, `{"id":42}`, "")
	const plain = `{"rules":[{"operations":[{"op":"==","jwt_claim":"foo","jwt_claim_type":"plain","value":"1"}],"methods":["GET"],"resource":"/confidential"}]}`
	const several = `{"op":"!=","jwt_claim":"{{bar}}","jwt_claim_type":"liquid","value":"2"},
		{"op":"==","jwt_claim":"{{roles | first}}","jwt_claim_type":"liquid","value":"director"}`
	for _, tc := range []struct {
		name, config           string
		method, target, claims string // claims empty: no token
		ok                     bool
	}{
		{"plain", plain, "GET", "/confidential", `{"foo":"1"}`, true},
		{"a number", plain, "GET", "/confidential", `{"foo":1}`, true},
		{"another value", plain, "GET", "/confidential", `{"foo":"2"}`, false},
		{"no claim", plain, "GET", "/confidential", `{}`, false},
		{"no token", plain, "GET", "/confidential", "", false},
		{"below", plain, "GET", "/confidential/x", "", false},
		{"elsewhere", plain, "GET", "/public", "", true},
		{"another method", plain, "POST", "/confidential", "", true},
		{"and", `{"rules":[{"operations":[` + several + `],"resource":"/"}]}`, "GET", "/", `{"bar":"1","roles":["director"]}`, true},
		{"and, one", `{"rules":[{"operations":[` + several + `],"resource":"/"}]}`, "GET", "/", `{"bar":"2","roles":["director"]}`, false},
		{"or, one", `{"rules":[{"operations":[` + several + `],"combine_op":"or","resource":"/"}]}`, "GET", "/", `{"bar":"1","roles":["manager"]}`, true},
		{"or, none", `{"rules":[{"operations":[` + several + `],"combine_op":"or","resource":"/"}]}`, "GET", "/", `{"bar":"2","roles":["manager"]}`, false},
		{"the second rule", `{"rules":[{"operations":[],"resource":"/"},{"operations":[{"op":"matches","jwt_claim":"foo","jwt_claim_type":"plain","value":"^a"}],"resource":"/"}]}`, "GET", "/", `{"foo":"ba"}`, false},
		{"a template's value", `{"rules":[{"operations":[{"op":"!=","jwt_claim":"{{foo}}","value":"test_{{foo}}","value_type":"liquid"}],"resource":"/"}]}`, "GET", "/", `{"foo":"x"}`, true},
		{"nginx's names first", `{"rules":[{"operations":[{"op":"==","jwt_claim":"{{uri}}","value":"/a"}],"resource":"/"}]}`, "GET", "/a", `{"uri":"x"}`, true},
		{"no operation", `{"rules":[{"operations":[],"combine_op":"or","resource":"/"}]}`, "GET", "/", `{}`, false},
		{"escaped", `{"rules":[{"operations":[{"op":"==","jwt_claim":"foo","jwt_claim_type":"plain","value":"1"}],"resource":"/groups/{id}$"}]}`, "GET", "/groups/ 20\n30", `{}`, false},
		{"resource template", `{"rules":[{"operations":[{"op":"==","jwt_claim":"foo","jwt_claim_type":"plain","value":"1"}],"resource":"/{{jwt.aud}}","resource_type":"liquid"}]}`, "GET", "/app", `{"aud":"app"}`, false},
		{"resource template elsewhere", `{"rules":[{"operations":[{"op":"==","jwt_claim":"foo","jwt_claim_type":"plain","value":"1"}],"resource":"/{{jwt.aud}}","resource_type":"liquid"}]}`, "GET", "/app", `{"aud":"ape"}`, true},
		{"resource out of a template is no pattern", `{"rules":[{"operations":[],"resource":"/{{jwt.aud}}","resource_type":"liquid"}]}`, "GET", "/app", `{"aud":"a("}`, false},
		{"extended", `{"rules":[{"operations":[{"op":"==","jwt_claim":"foo","jwt_claim_type":"plain","value":"{{jwt.foo}}","value_type":"liquid"}],"resource":"/"}],"enable_extended_context":true}`, "GET", "/", `{"foo":"x"}`, true},
		{"extended query", `{"rules":[{"operations":[{"op":"==","jwt_claim":"foo","jwt_claim_type":"plain","value":"{{original_request.query | split: \"check=\" | last}}","value_type":"liquid"}],"resource":"/"}],"enable_extended_context":true}`, "GET", "/?check=y", `{"foo":"x"}`, false},
		{"extended, a name of its own", `{"rules":[{"operations":[{"op":"==","jwt_claim":"{{foo}}","value":"x"}],"resource":"/"}],"enable_extended_context":true}`, "GET", "/", `{"foo":"x"}`, false},
		{"no rules", `{}`, "GET", "/", "", true},
	} {
		ph := threescaletest.Compile(t, p, Policy, tc.config)
		c := threescaletest.Ctx(p, tc.target)
		c.Request.Method = tc.method
		if tc.claims != "" {
			threescaletest.Claims(t, c, tc.claims)
		}
		if ph.Access == nil {
			continue
		}
		r := ph.Access(c)
		if (r == nil) != tc.ok || r != nil && (r.Status != 403 || string(r.Body) != "Request blocked due to JWT claim policy\n") {
			t.Errorf("%s: %+v", tc.name, r)
		}
	}
}

// TestRouted: what an upstream chosen by a policy has for a path is a part of the
// resource.
func TestRouted(t *testing.T) {
	p := threescaletest.Product(t, nil, `{}`, "")
	ph := threescaletest.Compile(t, p, Policy, `{"error_message":"no","rules":[{"operations":[{"op":"==","jwt_claim":"foo","jwt_claim_type":"plain","value":"1"}],"resource":"/v1/secret"}]}`)
	for url, ok := range map[string]bool{"http://a.test/v1": false, "http://a.test/v1/": false, "http://a.test": true, "http://a.test/v2": true} {
		c := threescaletest.Ctx(p, "/secret")
		up, err := threescale.NewUpstream(url)
		if err != nil {
			t.Fatal(err)
		}
		threescale.Of(c).Upstream = up
		if r := ph.Access(c); (r == nil) != ok || r != nil && string(r.Body) != "no\n" {
			t.Errorf("%s: %+v", url, r)
		}
	}
	// A policy may choose the whole path (routing's replace_path).
	up, err := threescale.NewUpstream("http://a.test")
	if err != nil {
		t.Fatal(err)
	}
	for path, ok := range map[string]bool{"/v1/secret": false, "/v1/secrets": false, "/v1": true, "": true} {
		c := threescaletest.Ctx(p, "/other")
		threescale.Of(c).Upstream = up.Below(path)
		threescale.Of(c).SetPath("/")
		if r := ph.Access(c); (r == nil) != ok {
			t.Errorf("path %s: %+v", path, r)
		}
	}
}

func TestInvalid(t *testing.T) {
	p := threescaletest.Product(t, nil, `{}`, "")
	for _, config := range []string{
		`{"rules":[{"operations":[]}]}`,
		`{"rules":[{"operations":[{"op":"<","jwt_claim":"a","value":"1"}],"resource":"/"}]}`,
		`{"rules":[{"operations":[{"op":"matches","jwt_claim":"a","value":"("}],"resource":"/"}]}`,
		`{"rules":[{"operations":[],"resource":"/("}]}`,
		`{"rules":[{"operations":[],"resource":"/","combine_op":"xor"}]}`,
	} {
		if _, err := Policy.Compile([]byte(config), threescaletest.Env(p)); err == nil {
			t.Errorf("%s is accepted", config)
		}
	}
	if !Policy.Guard {
		t.Error("no guard")
	}
}
