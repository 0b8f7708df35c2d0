package management

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"

	"weir/internal/document"
	"weir/internal/plugin"
)

// A Manifest describes a policy to those who configure it.
type Manifest struct {
	Schema        string          `json:"$schema"`
	Name          string          `json:"name"`
	Summary       string          `json:"summary"`
	Description   []string        `json:"description"`
	Version       string          `json:"version"`
	Order         *order          `json:"order,omitempty"`
	Configuration json.RawMessage `json:"configuration"`
}

type order struct {
	Before []place `json:"before"`
}

type place struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

const (
	builtin        = "builtin"
	manifestSchema = "http://apicast.io/policy-v1.1/schema"
	manifestFile   = "apicast-policy.json"
)

// titles are what people call the policies that they can configure. A policy that
// is not here has no manifest: it belongs to the gateway.
var titles = map[string]string{
	"3scale_batcher": "3scale Batcher", "3scale_referrer": "3scale Referrer", "apicast": "3scale APIcast",
	"caching": "3scale Auth Caching", "camel": "Camel Service", "content_caching": "Content caching",
	"cors": "CORS Request Handling", "custom_metrics": "Custom Metrics", "default_credentials": "Anonymous Access",
	"echo": "Echo", "fapi": "Financial-grade API (FAPI)", "grpc": "HTTP2 Endpoint", "headers": "Header Modification",
	"http_proxy": "Proxy Service", "ip_check": "IP Check", "jwt_claim_check": "JWT Claim Check", "jwt_parser": "JWT Parser",
	"keycloak_role_check": "RH-SSO/Keycloak Role Check", "liquid_context_debug": "Liquid Context Debug", "logging": "Logging",
	"maintenance_mode": "Maintenance Mode", "nginx_filters": "Nginx Filter", "oauth_mtls": "OAuth 2.0 Mutual TLS Client Authentication",
	"on_failed": "On fail", "payload_limits": "Response/Request content limits", "rate_limit": "Edge Limiting",
	"rate_limit_headers": "Rate Limits Headers", "request_unbuffered": "Request Unbuffered", "retry": "Retry",
	"rewrite_url_captures": "URL Rewriting with Captures", "routing": "Routing", "soap": "SOAP",
	"statuscode_overwrite": "HTTP Status Code Overwrite", "tls": "TLS Termination", "tls_validation": "TLS Client Certificate Validation",
	"token_introspection": "OAuth 2.0 Token Introspection", "upstream": "Upstream", "upstream_connection": "Upstream Connection",
	"upstream_mtls": "Upstream Mutual TLS", "url_rewriting": "URL Rewriting", "websocket": "Websocket",
}

// Manifests are those of the policies of this build, and of what lies in the
// folders of path, as NAME/VERSION/apicast-policy.json: an object of lists by
// name.
func Manifests(policies []plugin.Spec, path []string, log *slog.Logger) (json.RawMessage, error) {
	all := map[string][]json.RawMessage{}
	for _, p := range policies {
		title, has := titles[p.Name]
		if !has {
			continue
		}
		settings, err := settings(p)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(manifest(p, title, settings))
		if err != nil {
			return nil, err
		}
		all[p.Name] = append(all[p.Name], raw)
	}
	for _, folder := range path {
		files, err := filepath.Glob(filepath.Join(folder, "*", "*", manifestFile))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if raw := readManifest(f, log); raw != nil {
				name := filepath.Base(filepath.Dir(filepath.Dir(f)))
				all[name] = append(all[name], raw)
			}
		}
	}
	return json.Marshal(all)
}

// settings is the schema of a policy's configuration, without what plugins of
// APISIX have more.
func settings(p plugin.Spec) (json.RawMessage, error) {
	raw, err := p.Describe().Schema.MarshalJSON()
	if err != nil {
		return nil, err
	}
	v, err := document.Parse(raw)
	if err != nil {
		return nil, err
	}
	v.Delete("$comment")
	v.Get("properties").Delete("_meta")
	return v.Append(nil), nil
}

func manifest(p plugin.Spec, title string, settings json.RawMessage) Manifest {
	m := Manifest{
		Schema: manifestSchema, Name: title, Summary: p.Doc, Description: []string{p.Doc}, Version: builtin,
		Configuration: settings,
	}
	if len(p.Before) > 0 {
		m.Order = &order{}
		for _, b := range p.Before {
			m.Order.Before = append(m.Order.Before, place{b, builtin})
		}
	}
	return m
}

// readManifest reads one; nil: it is none, or its version is not that of its
// folder.
func readManifest(file string, log *slog.Logger) json.RawMessage {
	raw, err := os.ReadFile(file)
	var m struct{ Version string }
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		log.Warn("a policy's manifest cannot be read", "file", file, "err", err)
		return nil
	}
	if dir := filepath.Base(filepath.Dir(file)); m.Version != dir {
		log.Warn("a policy's manifest is not that of its folder", "file", file, "version", m.Version)
		return nil
	}
	return raw
}
