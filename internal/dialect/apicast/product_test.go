package apicast

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"weir/internal/model"
)

func TestDefaults(t *testing.T) {
	plain := func(status int, message string) model.Refusal {
		return model.Refusal{Status: status, ContentType: "text/plain; charset=utf-8", Message: message}
	}
	want := &model.Product{
		ID: "default", Hosts: []string{"localhost"}, Backend: model.Endpoint{URL: "http://127.0.0.1:8081"},
		Chain: []model.Policy{{Name: "apicast", Version: "builtin", Configuration: json.RawMessage("{}")}},
		Rules: []model.MappingRule{}, CredentialsLocation: "query", UserKeyName: "user_key", AppIDName: "app_id", AppKeyName: "app_key",
		Failed: plain(403, "Authentication failed"), Missing: plain(401, "Authentication parameters missing"),
		LimitsExceeded: plain(429, "Limits exceeded"), NoMatch: plain(404, "No Mapping Rule matched"),
		ClientIDClaim: "azp", ClientIDClaimType: "plain",
	}
	for _, doc := range []string{`{}`, `{"service":{}}`, `{"service":{"proxy":null}}`, `{"service":{"id":null,"proxy":{"hosts":null,"policy_chain":null,"backend":{}}},"oidc":false}`} {
		got, err := Decode([]byte(doc))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", doc, got, err)
		}
	}
}

func TestDecode(t *testing.T) {
	p, err := Decode([]byte(`{"service":{"id":42,"system_name":"s","backend_version":1,
		"backend_authentication_type":"service_token","backend_authentication_value":"v",
		"proxy":{"api_backend":"http://up/","hosts":["One","two"],"backend":{"endpoint":"http://b","host":"bh"},
		"secret_token":"st","hostname_rewrite":"hr","credentials_location":"headers","auth_user_key":"Key","auth_app_id":"ID","auth_app_key":"K",
		"error_auth_failed":"","error_status_auth_failed":"418","error_headers_auth_failed":"text/html",
		"error_status_auth_missing":99,"error_limits_exceeded":"le","error_status_limits_exceeded":430,"error_no_match":"nm",
		"oidc_issuer_endpoint":"http://i","jwt_claim_with_client_id":"cid","jwt_claim_with_client_id_type":"liquid",
		"policy_chain":[{"name":"apicast.policy.headers","version":"1.0","configuration":null},{"name":"mine","version":"2","configuration":{"a":1}},{"name":"x","configuration":[]}],
		"proxy_rules":[{"http_method":"GET","pattern":"/","metric_system_name":"hits","delta":"2","last":true,"querystring_parameters":{"b":1,"a":"{x}"},"owner_id":7,"owner_type":"BackendApi"},
			{"metric_system_name":"m","owner_id":8,"owner_type":"Proxy","querystring_parameters":[]}]}},
		"oidc":{"issuer":"iss","config":{"id_token_signing_alg_values_supported":["RS256"]},"keys":{"k":{"kty":"RSA","pem":"P","alg":"RS256"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want any }{
		"id":          {p.ID, "42"},
		"version":     {p.BackendVersion + p.Authentication, "11"},
		"auth":        {p.BackendAuthName + "=" + p.BackendAuthValue, "service_token=v"},
		"hosts":       {p.Hosts, []string{"one", "two"}},
		"backend":     {p.Backend, model.Endpoint{URL: "http://b", Host: "bh"}},
		"upstream":    {p.Upstream + p.HostnameRewrite + p.SecretToken, "http://up/hrst"},
		"credentials": {p.CredentialsLocation + p.UserKeyName + p.AppIDName + p.AppKeyName, "headerskeyidk"},
		"failed":      {p.Failed, model.Refusal{Status: 418, ContentType: "text/html"}},
		"missing":     {p.Missing.Status, 401},
		"limits":      {p.LimitsExceeded, model.Refusal{Status: 430, ContentType: "text/plain; charset=utf-8", Message: "le"}},
		"no match":    {p.NoMatch.Message, "nm"},
		"claim":       {p.ClientIDClaim + p.ClientIDClaimType + p.OIDCIssuer, "cidliquidhttp://i"},
		"chain":       {fmt.Sprintf("%s", p.Chain), "[{headers builtin {}} {mine 2 {\"a\":1}} {x builtin {}}]"},
		"rules": {p.Rules, []model.MappingRule{
			{Method: "GET", Pattern: "/", Metric: "hits", Delta: 2, Last: true, Owner: "7", Parameters: []model.QueryParameter{{Name: "a", Value: "{x}"}, {Name: "b", Value: "1"}}},
			{Metric: "m"},
		}},
		"oidc": {fmt.Sprint(p.OIDC.Issuer, p.OIDC.Algorithms, p.OIDC.Keys["k"].PEM, p.OIDC.Keys["k"].Alg), "iss[RS256]PRS256"},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for doc, want := range map[string]string{
		`{`:                                   "unexpected end",
		`{"service":[]}`:                      "service: an object is expected, not a list",
		`{"service":{"id":{}}}`:               "service.id: a string is expected, not an object",
		`{"service":{"proxy":{"hosts":"x"}}}`: "service.proxy.hosts: a list is expected, not a string",
		`{"service":{"proxy":{"policy_chain":"x"}}}`:                                                           "service.proxy.policy_chain: a list is expected, not a string",
		`{"service":{"proxy":{"policy_chain":[1]}}}`:                                                           "service.proxy.policy_chain: an object is expected, not a number",
		`{"service":{"proxy":{"api_backend":["x"]}}}`:                                                          "service.proxy.api_backend: a string is expected, not a list",
		`{"service":{"proxy":{"proxy_rules":[{"metric_system_name":"m","last":"x"}]}}}`:                        "service.proxy.proxy_rules.last: true or false is expected, not a string",
		`{"service":{"proxy":{"policy_chain":[{}]}}}`:                                                          "policy_chain[0] has no name",
		`{"service":{"proxy":{"proxy_rules":[{"metric_system_name":"m","delta":"x"}]}}}`:                       "service.proxy.proxy_rules.delta: a whole number is expected, not \"x\"",
		`{"service":{"proxy":{"proxy_rules":[{"metric_system_name":"m","delta":1.5}]}}}`:                       "a whole number is expected",
		`{"service":{"proxy":{"proxy_rules":[{"pattern":"/"}]}}}`:                                              "proxy_rules[0] has no metric_system_name",
		`{"service":{"proxy":{"proxy_rules":[{"metric_system_name":"m","querystring_parameters":{"a":[]}}]}}}`: "proxy_rules[0].querystring_parameters",
		`{"oidc":{"keys":[1]}}`:     "oidc: keys: an object is expected, not a list",
		`{"oidc":{"keys":{"k":1}}}`: `oidc: keys["k"]`,
	} {
		if p, err := Decode([]byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %s", doc, p, err, want)
		}
	}
}

func TestPolicies(t *testing.T) {
	got, err := Policies([]byte(`[{"name":"apicast.policy.echo"},{"name":"a","version":null}]`))
	if err != nil || fmt.Sprintf("%s", got) != "[{echo builtin {}} {a builtin {}}]" {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := Policies([]byte(`[{"version":"1"}]`)); err == nil {
		t.Error(got)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"service":{"id":1,"proxy":{"hosts":["a"],"policy_chain":[{"name":"x"}]}},"oidc":{"keys":{"a":{}}}}`,
		`{"service":{"proxy":{"proxy_rules":[{"metric_system_name":"m","delta":-1,"querystring_parameters":{"a":"b"}}]}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Decode(raw)
		if err != nil {
			return
		}
		if p.ID == "" || p.Failed.Status == 0 || p.Chain == nil {
			t.Errorf("%s: %+v", raw, p)
		}
	})
}

// TestText: a text is what encoding/json makes of it, whichever way it is read.
func TestText(t *testing.T) {
	for _, doc := range []string{`""`, `"a b/c?d=e"`, `"\u00e4\n\"\\"`, `"ä"`, "\"\xff\"", `"\ud800"`, "\"\x7f\""} {
		var want string
		var got text
		if err := json.Unmarshal([]byte(doc), &want); err != nil {
			t.Fatal(doc, err)
		}
		if err := json.Unmarshal([]byte(doc), &got); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", doc, got, err, want)
		}
	}
}
