package keycloakrolecheck

import (
	"testing"

	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	p := threescaletest.Product(t, nil, `{"id":42,"proxy":{"error_auth_failed":"no","error_status_auth_failed":402}}`, "")
	const (
		director = `{"scopes":[{"realm_roles":[{"name":"director"}],"resource":"/confidential"}]}`
		employee = `{"type":"blacklist","scopes":[{"client_roles":[{"name":"employee","client":"bank_A"}],"resource":"/confidential"}]}`
		both     = `{"scopes":[{"realm_roles":[{"name":"a"},{"name":"b"}],"client_roles":[{"name":"c","client":"x"}],"resource":"/"}]}`
		byToken  = `{"scopes":[{"client_roles":[{"name":"{{ jwt.aud }}","name_type":"liquid","client":"{{ jwt.aud }}","client_type":"liquid"}],"resource":"/{{ jwt.aud }}","resource_type":"liquid"}]}`
	)
	for _, tc := range []struct {
		name, config           string
		method, target, claims string // claims empty: no token
		ok                     bool
	}{
		{"role", director, "GET", "/confidential", `{"realm_access":{"roles":["x","director"]}}`, true},
		{"no such role", director, "GET", "/confidential", `{"realm_access":{"roles":["x"]}}`, false},
		{"no roles", director, "GET", "/confidential", `{"realm_access":{}}`, false},
		{"odd roles", director, "GET", "/confidential", `{"realm_access":{"roles":"director"}}`, false},
		{"no access", director, "GET", "/confidential", `{}`, false},
		{"no token", director, "GET", "/confidential", "", false},
		{"another resource", director, "GET", "/public", `{"realm_access":{"roles":["director"]}}`, false},
		{"blacklist", employee, "GET", "/confidential", `{"resource_access":{"bank_A":{"roles":["employee"]}}}`, false},
		{"blacklist, another client", employee, "GET", "/confidential", `{"resource_access":{"bank_B":{"roles":["employee"]}}}`, true},
		{"blacklist, another role", employee, "GET", "/confidential", `{"resource_access":{"bank_A":{"roles":["director"]}}}`, true},
		{"blacklist, no token", employee, "GET", "/confidential", "", true},
		{"all roles", both, "GET", "/", `{"realm_access":{"roles":["b","a"]},"resource_access":{"x":{"roles":["c"]}}}`, true},
		{"one is missing", both, "GET", "/", `{"realm_access":{"roles":["b"]},"resource_access":{"x":{"roles":["c"]}}}`, false},
		{"the client's is missing", both, "GET", "/", `{"realm_access":{"roles":["b","a"]},"resource_access":{"x":{"roles":[]}}}`, false},
		{"templates", byToken, "GET", "/app1", `{"aud":"app1","resource_access":{"app1":{"roles":["app1"]}}}`, true},
		{"templates, elsewhere", byToken, "GET", "/app2", `{"aud":"app1","resource_access":{"app1":{"roles":["app1"]}}}`, false},
		{"method", `{"scopes":[{"resource":"/","methods":["GET"]}]}`, "GET", "/", `{}`, true},
		{"another method", `{"scopes":[{"resource":"/","methods":["GET"]}]}`, "POST", "/", `{}`, false},
		{"empty methods", `{"scopes":[{"resource":"/","methods":[]}]}`, "POST", "/", `{}`, true},
		{"no scopes", `{}`, "GET", "/", `{}`, false},
		{"no scopes, blacklist", `{"type":"blacklist"}`, "GET", "/", `{}`, true},
		{"blacklist, no pattern", `{"type":"blacklist","scopes":[{"resource":"/{{jwt.aud}}","resource_type":"liquid"}]}`, "GET", "/", `{"aud":"("}`, false},
		{"blacklist, escaped", `{"type":"blacklist","scopes":[{"resource":"/groups/{id}$"}]}`, "GET", "/groups/a b", `{}`, false},
		{"the second scope", `{"scopes":[{"resource":"/a"},{"resource":"/b"}]}`, "GET", "/b", `{}`, true},
	} {
		ph := threescaletest.Compile(t, p, Policy, tc.config)
		c := threescaletest.Ctx(p, tc.target)
		c.Request.Method = tc.method
		if tc.claims != "" {
			threescaletest.Claims(t, c, tc.claims)
		}
		r := ph.Access(c)
		if (r == nil) != tc.ok || r != nil && (r.Status != 402 || string(r.Body) != "no") {
			t.Errorf("%s: %+v", tc.name, r)
		}
	}
}

func TestInvalid(t *testing.T) {
	p := threescaletest.Product(t, nil, `{}`, "")
	for _, config := range []string{
		`{"scopes":[{}]}`, `{"type":"greylist"}`, `{"scopes":[{"resource":"/("}]}`,
		`{"scopes":[{"resource":"/","realm_roles":[{}]}]}`, `{"scopes":[{"resource":"/","client_roles":[{"name":"a"}]}]}`,
	} {
		if _, err := Policy.Compile([]byte(config), threescaletest.Env(p)); err == nil {
			t.Errorf("%s is accepted", config)
		}
	}
	if !Policy.Guard {
		t.Error("no guard")
	}
}
