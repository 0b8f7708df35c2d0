package model

import "encoding/json"

// A Product is a 3scale service with its proxy and its part of the document's
// OIDC list (apicast.md §2).
type Product struct {
	ID, SystemName string
	Hosts          []string // exact, lower case

	// BackendVersion is "1" (user key), "2" (application id and key), "oauth" or
	// whatever the document says; Authentication likewise, "oidc" among others.
	BackendVersion, Authentication string

	// BackendAuth is the name and the value of the query parameter that proves
	// the gateway to 3scale's backend; the value also unlocks debug headers.
	BackendAuthName, BackendAuthValue string

	Backend         Endpoint
	Upstream        string // URL; empty: none
	HostnameRewrite string
	SecretToken     string

	Chain []Policy // in the order in which they run; never empty
	Rules []MappingRule

	CredentialsLocation              string // query, headers, authorization
	UserKeyName, AppIDName           string
	AppKeyName                       string
	Failed, Missing                  Refusal
	LimitsExceeded, NoMatch          Refusal
	OIDCIssuer                       string // oidc_issuer_endpoint as configured, perhaps with credentials
	ClientIDClaim, ClientIDClaimType string
	OIDC                             *OIDC // nil: none
}

// An Endpoint is where 3scale's backend is.
type Endpoint struct {
	URL  string
	Host string // Host header; empty: of the URL
}

// A Policy is one element of a product's chain.
type Policy struct {
	Name, Version string
	Configuration json.RawMessage // "{}" where the document has none
}

// A MappingRule counts the requests that match it.
type MappingRule struct {
	Method     string // ANY: every one
	Pattern    string
	Metric     string
	Delta      int64
	Last       bool
	Parameters []QueryParameter
	Owner      string // id of the backend API that owns the rule; empty: none
}

// A QueryParameter is what a mapping rule wants of the query string.
type QueryParameter struct{ Name, Value string }

// A Refusal is the answer of a product for one kind of failure.
type Refusal struct {
	Status      int
	ContentType string
	Message     string
}

// OIDC is what is known of a product's token issuer.
type OIDC struct {
	Issuer     string
	Algorithms []string // id_token_signing_alg_values_supported; nil: the configuration is missing

	// Introspection is where tokens can be asked about (RFC 7662); empty: nowhere.
	Introspection string

	Keys map[string]JWK
}

// A JWK is one signing key of an issuer (RFC 7517), as JSON and perhaps as PEM.
type JWK struct {
	JSON json.RawMessage
	PEM  string
	Alg  string // empty: any that the key can serve
}
