// Package eureka discovers applications of Eureka (discovery_type eureka) by
// reading its list of applications every fetch_interval (Eureka's REST
// operations, GET /apps). Of that list only the applications in use are kept.
package eureka

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"weir/internal/discovery"
)

const kind = "eureka"

// Config is APISIX's discovery.eureka.
type Config struct {
	Host          []string `json:"host" schema:"required,minItems=1" doc:"Servers, perhaps with user:password@."`
	FetchInterval int      `json:"fetch_interval" schema:"min=1,default=30" doc:"Seconds between two readings."`
	Prefix        string   `json:"prefix" doc:"Path of Eureka."`
	Weight        *int     `json:"weight" schema:"min=0" doc:"Weight of instances that have none (100)."`
	Timeout       Timeout  `json:"timeout" schema:"default={\"connect\":2000,\"send\":2000,\"read\":5000}" doc:"Time-outs in milliseconds."`
}

// Timeout bounds queries, in milliseconds.
type Timeout struct {
	Connect int `json:"connect" schema:"min=1,default=2000" doc:"To connect."`
	Send    int `json:"send" schema:"min=1,default=2000" doc:"To send."`
	Read    int `json:"read" schema:"min=1,default=5000" doc:"Until the answer is read."`
}

const defaultWeight = 100

// New makes the registry of raw, discovery.eureka of config.yaml.
func New(raw json.RawMessage, env discovery.Env) (*discovery.Registry, error) {
	c, shown, err := discovery.Parse[Config](raw)
	if err != nil {
		return nil, err
	}
	b, err := newReader(&c, env)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(b.endpoints, func(e endpoint) bool { return e.auth != "" }) {
		if shown, err = discovery.Hide(shown, "host"); err != nil {
			return nil, err
		}
	}
	return discovery.New(discovery.Config{Kind: kind, Backend: b, Env: env, Shown: shown}), nil
}

// An endpoint is one server.
type endpoint struct {
	apps string // URL
	auth string // Authorization; empty: none
}

func newEndpoint(host, prefix string) (endpoint, error) {
	var e endpoint
	scheme, rest, ok := strings.Cut(host, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return e, errors.New("host: does not begin with http:// or https://")
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		e.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(rest[:at]))
		rest = rest[at+1:]
	}
	e.apps = scheme + "://" + rest + prefix
	if !strings.HasSuffix(e.apps, "/") {
		e.apps += "/"
	}
	e.apps += "apps"
	if _, err := url.Parse(e.apps); err != nil {
		return e, errors.New("host: is not a URL")
	}
	return e, nil
}
