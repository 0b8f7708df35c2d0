package apicast

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/internal/model"
)

// A Product is the document of a product as sources deliver it (the Raw of a
// model.KindProduct): a service of the portal's configuration, and the entry of
// its OIDC list that belongs to it.
type Product struct {
	Service json.RawMessage `json:"service"`
	OIDC    json.RawMessage `json:"oidc,omitempty"` // null, false: none
}

// text is a JSON string, or a number or boolean taken as text; null is empty.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	switch {
	case plain(b):
		*t = text(b[1 : len(b)-1])
		return nil
	case b[0] == '"':
		return json.Unmarshal(b, (*string)(t))
	case bytes.Equal(b, []byte("null")):
		return nil
	case b[0] == '{':
		return wrongType[string]("object")
	case b[0] == '[':
		return wrongType[string]("array")
	}
	*t = text(b)
	return nil
}

// plain says that a JSON value is a string of ASCII characters that stand for
// themselves.
func plain(b []byte) bool {
	if b[0] != '"' {
		return false
	}
	for _, c := range b {
		if c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// whole is a JSON number, perhaps written as text; null is 0.
type whole int64

func (n *whole) UnmarshalJSON(b []byte) error {
	var t text
	if err := t.UnmarshalJSON(b); err != nil || t == "" {
		return err
	}
	f, err := strconv.ParseFloat(string(t), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return wrongType[int64](fmt.Sprintf("%.20s", b))
	}
	*n = whole(f)
	return nil
}

// productDoc is a Product whose service is read.
type productDoc struct {
	Service serviceDoc      `json:"service"`
	OIDC    json.RawMessage `json:"oidc"`
}

type serviceDoc struct {
	ID             text      `json:"id"`
	SystemName     text      `json:"system_name"`
	BackendVersion text      `json:"backend_version"`
	AuthType       text      `json:"backend_authentication_type"`
	AuthValue      text      `json:"backend_authentication_value"`
	Proxy          *proxyDoc `json:"proxy"`
}

type proxyDoc struct {
	APIBackend text   `json:"api_backend"`
	Hosts      []text `json:"hosts"`
	Backend    *struct {
		Endpoint text `json:"endpoint"`
		Host     text `json:"host"`
	} `json:"backend"`
	Authentication  text        `json:"authentication_method"`
	Chain           []policyDoc `json:"policy_chain"`
	Rules           []ruleDoc   `json:"proxy_rules"`
	SecretToken     text        `json:"secret_token"`
	HostnameRewrite text        `json:"hostname_rewrite"`

	OIDCIssuer      text `json:"oidc_issuer_endpoint"`
	ClientIDClaim   text `json:"jwt_claim_with_client_id"`
	ClientClaimType text `json:"jwt_claim_with_client_id_type"`

	CredentialsLocation text `json:"credentials_location"`
	AuthUserKey         text `json:"auth_user_key"`
	AuthAppID           text `json:"auth_app_id"`
	AuthAppKey          text `json:"auth_app_key"`

	ErrorAuthFailed     *text `json:"error_auth_failed"`
	StatusAuthFailed    whole `json:"error_status_auth_failed"`
	HeadersAuthFailed   text  `json:"error_headers_auth_failed"`
	ErrorAuthMissing    *text `json:"error_auth_missing"`
	StatusAuthMissing   whole `json:"error_status_auth_missing"`
	HeadersAuthMissing  text  `json:"error_headers_auth_missing"`
	ErrorLimitsExceeded *text `json:"error_limits_exceeded"`
	StatusLimits        whole `json:"error_status_limits_exceeded"`
	HeadersLimits       text  `json:"error_headers_limits_exceeded"`
	ErrorNoMatch        *text `json:"error_no_match"`
	StatusNoMatch       whole `json:"error_status_no_match"`
	HeadersNoMatch      text  `json:"error_headers_no_match"`
}

type policyDoc struct {
	Name          text            `json:"name"`
	Version       text            `json:"version"`
	Configuration json.RawMessage `json:"configuration"`
}

type ruleDoc struct {
	Method     text  `json:"http_method"`
	Pattern    text  `json:"pattern"`
	Metric     text  `json:"metric_system_name"`
	Delta      whole `json:"delta"`
	Last       bool  `json:"last"`
	Parameters table `json:"querystring_parameters"`
	OwnerID    text  `json:"owner_id"`
	OwnerType  text  `json:"owner_type"`
}

// Decode reads a product's document.
func Decode(raw []byte) (*model.Product, error) {
	var doc productDoc
	if err := decode(raw, &doc); err != nil {
		return nil, err
	}
	s := &doc.Service
	if s.Proxy == nil {
		s.Proxy = new(proxyDoc)
	}
	p := s.product()
	var err error
	if p.Chain, err = s.Proxy.chain(); err != nil {
		return nil, err
	}
	if p.Rules, err = s.Proxy.rules(); err != nil {
		return nil, err
	}
	if p.OIDC, err = DecodeOIDC(doc.OIDC); err != nil {
		return nil, fmt.Errorf("oidc: %w", err)
	}
	return p, nil
}

// DefaultBackend is the backend of a product that names none (apicast.md §2.2).
const DefaultBackend = "http://127.0.0.1:8081"

func (s *serviceDoc) product() *model.Product {
	x := s.Proxy
	p := &model.Product{
		ID: cmp.Or(string(s.ID), "default"), SystemName: string(s.SystemName),
		BackendVersion: string(s.BackendVersion), Authentication: string(cmp.Or(x.Authentication, s.BackendVersion)),
		BackendAuthName: string(s.AuthType), BackendAuthValue: string(s.AuthValue),
		Backend:  model.Endpoint{URL: DefaultBackend},
		Upstream: string(x.APIBackend), HostnameRewrite: string(x.HostnameRewrite), SecretToken: string(x.SecretToken),
		CredentialsLocation: string(cmp.Or(x.CredentialsLocation, "query")),
		UserKeyName:         strings.ToLower(string(cmp.Or(x.AuthUserKey, "user_key"))),
		AppIDName:           strings.ToLower(string(cmp.Or(x.AuthAppID, "app_id"))),
		AppKeyName:          strings.ToLower(string(cmp.Or(x.AuthAppKey, "app_key"))),
		Failed:              refusal(x.ErrorAuthFailed, x.StatusAuthFailed, x.HeadersAuthFailed, "Authentication failed", 403),
		Missing:             refusal(x.ErrorAuthMissing, x.StatusAuthMissing, x.HeadersAuthMissing, "Authentication parameters missing", 401),
		LimitsExceeded:      refusal(x.ErrorLimitsExceeded, x.StatusLimits, x.HeadersLimits, "Limits exceeded", 429),
		NoMatch:             refusal(x.ErrorNoMatch, x.StatusNoMatch, x.HeadersNoMatch, "No Mapping Rule matched", 404),
		OIDCIssuer:          string(x.OIDCIssuer),
		ClientIDClaim:       string(cmp.Or(x.ClientIDClaim, "azp")),
		ClientIDClaimType:   string(cmp.Or(x.ClientClaimType, "plain")),
	}
	for _, h := range x.Hosts {
		p.Hosts = append(p.Hosts, strings.ToLower(string(h)))
	}
	if x.Hosts == nil {
		p.Hosts = []string{"localhost"}
	}
	if b := x.Backend; b != nil && b.Endpoint != "" {
		p.Backend = model.Endpoint{URL: string(b.Endpoint), Host: string(b.Host)}
	}
	return p
}

func refusal(message *text, status whole, contentType text, defaultMessage string, defaultStatus int) model.Refusal {
	r := model.Refusal{Status: defaultStatus, Message: defaultMessage, ContentType: string(cmp.Or(contentType, "text/plain; charset=utf-8"))}
	if message != nil {
		r.Message = string(*message)
	}
	if 100 <= status && status <= 999 {
		r.Status = int(status)
	}
	return r
}

// chain is the policy chain, [apicast] where there is none.
func (x *proxyDoc) chain() ([]model.Policy, error) {
	if x.Chain == nil {
		return []model.Policy{{Name: "apicast", Version: Builtin, Configuration: json.RawMessage("{}")}}, nil
	}
	return policies(x.Chain)
}

// Builtin is the version of the policies that come with the gateway.
const Builtin = "builtin"

// Policies reads a policy chain, as it also stands in policies that contain
// policies.
func Policies(raw []byte) ([]model.Policy, error) {
	var docs []policyDoc
	if err := decode(present(raw), &docs); err != nil {
		return nil, err
	}
	return policies(docs)
}

func policies(docs []policyDoc) ([]model.Policy, error) {
	chain := make([]model.Policy, 0, len(docs))
	for i, d := range docs {
		if d.Name == "" {
			return nil, fmt.Errorf("policy_chain[%d] has no name", i)
		}
		p := model.Policy{Name: string(d.Name), Version: string(cmp.Or(d.Version, Builtin)), Configuration: d.Configuration}
		if name, own := strings.CutPrefix(p.Name, "apicast.policy."); own {
			p.Name, p.Version = name, Builtin
		}
		if c := bytes.TrimSpace(p.Configuration); len(c) == 0 || bytes.Equal(c, []byte("null")) || bytes.Equal(c, []byte("[]")) {
			p.Configuration = json.RawMessage("{}")
		}
		chain = append(chain, p)
	}
	return chain, nil
}

func (x *proxyDoc) rules() ([]model.MappingRule, error) {
	rules := make([]model.MappingRule, 0, len(x.Rules))
	for i, d := range x.Rules {
		if d.Metric == "" {
			return nil, fmt.Errorf("proxy_rules[%d] has no metric_system_name", i)
		}
		r := model.MappingRule{
			Method: string(d.Method), Pattern: string(d.Pattern), Metric: string(d.Metric), Delta: int64(d.Delta), Last: d.Last,
		}
		for name, raw := range d.Parameters {
			var value text
			if err := worded(value.UnmarshalJSON(raw)); err != nil {
				return nil, fmt.Errorf("proxy_rules[%d].querystring_parameters: %w", i, err)
			}
			r.Parameters = append(r.Parameters, model.QueryParameter{Name: name, Value: string(value)})
		}
		slices.SortFunc(r.Parameters, func(a, b model.QueryParameter) int { return cmp.Compare(a.Name, b.Name) })
		if d.OwnerType == "BackendApi" {
			r.Owner = string(d.OwnerID)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

type oidcDoc struct {
	Issuer text `json:"issuer"`
	Config *struct {
		Algorithms       []string `json:"id_token_signing_alg_values_supported"`
		Introspection    text     `json:"introspection_endpoint"`
		OldIntrospection text     `json:"token_introspection_endpoint"` // of RH-SSO before 7.5
	} `json:"config"`
	Keys table `json:"keys"`
}

// DecodeOIDC reads an entry of a document's OIDC list; nil: it is none.
func DecodeOIDC(raw json.RawMessage) (*model.OIDC, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil, nil
	}
	var d oidcDoc
	if err := decode(present(raw), &d); err != nil {
		return nil, err
	}
	o := &model.OIDC{Issuer: string(d.Issuer), Keys: map[string]model.JWK{}}
	if d.Config != nil {
		o.Algorithms = d.Config.Algorithms
		o.Introspection = string(cmp.Or(d.Config.Introspection, d.Config.OldIntrospection))
	}
	for kid, key := range d.Keys {
		var k struct {
			PEM text `json:"pem"`
			Alg text `json:"alg"`
		}
		if err := decode(key, &k); err != nil {
			return nil, fmt.Errorf("keys[%q]: %w", kid, err)
		}
		o.Keys[kid] = model.JWK{JSON: key, PEM: string(k.PEM), Alg: string(k.Alg)}
	}
	return o, nil
}

// present is the document, an empty object where there is none.
func present(raw json.RawMessage) []byte {
	if len(bytes.TrimSpace(raw)) == 0 {
		return []byte("{}")
	}
	return raw
}

// A table is a JSON object, or an empty list, which is how Lua writes an empty
// object.
type table map[string]json.RawMessage

func (t *table) UnmarshalJSON(b []byte) error {
	if b[0] == '[' && len(bytes.TrimSpace(b[1:len(b)-1])) == 0 {
		*t = nil
		return nil
	}
	return json.Unmarshal(b, (*map[string]json.RawMessage)(t))
}

// Hosts are the hosts of a product's document that Decode refuses, as far as they
// can be read.
func Hosts(raw []byte) (hosts []string) {
	var doc struct {
		Service struct {
			Proxy struct {
				Hosts []string `json:"hosts"`
			} `json:"proxy"`
		} `json:"service"`
	}
	if json.Unmarshal(raw, &doc) != nil {
		return nil
	}
	for _, h := range doc.Service.Proxy.Hosts {
		hosts = append(hosts, strings.ToLower(h))
	}
	return hosts
}
