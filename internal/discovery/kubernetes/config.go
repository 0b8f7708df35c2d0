// Package kubernetes discovers the endpoints of services of Kubernetes clusters
// (discovery_type kubernetes) through the API server: it lists the Endpoints or
// EndpointSlices of a service and watches them from that version on.
package kubernetes

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"weir/internal/discovery"
	"weir/internal/schema"
)

const kind = "kubernetes"

// Config is APISIX's discovery.kubernetes, or one element of it if that is a
// list. Texts of the form ${NAME} stand for variables of the environment.
type Config struct {
	ID                  string    `json:"id" schema:"pattern=^[a-z0-9]{1,64}$" doc:"Name of the cluster in a list."`
	Service             Service   `json:"service" schema:"default={\"schema\":\"https\",\"host\":\"${KUBERNETES_SERVICE_HOST}\",\"port\":\"${KUBERNETES_SERVICE_PORT}\"}" doc:"The API server."`
	Client              Client    `json:"client" schema:"default={}" doc:"Who asks."`
	NamespaceSelector   *Selector `json:"namespace_selector" doc:"The namespaces whose services are there."`
	LabelSelector       string    `json:"label_selector" doc:"Labels that objects must have."`
	DefaultWeight       int       `json:"default_weight" schema:"min=0,default=50" doc:"Weight of nodes."`
	SharedSize          string    `json:"shared_size" schema:"default=64m,pattern=^[1-9][0-9]*m$" doc:"Without meaning here."`
	WatchEndpointSlices bool      `json:"watch_endpoint_slices" schema:"default=false" doc:"Read EndpointSlices instead of Endpoints."`
}

// Service is where the API server is.
type Service struct {
	Schema    string        `json:"schema" schema:"enum=http|https,default=https" doc:"http or https."`
	Host      string        `json:"host" schema:"default=${KUBERNETES_SERVICE_HOST}" doc:"Name or address."`
	Port      schema.Scalar `json:"port" schema:"default=${KUBERNETES_SERVICE_PORT}" doc:"Port."`
	SSLVerify bool          `json:"ssl_verify" schema:"default=false" doc:"Verify its certificate."`
}

// Client is what the API server knows the gateway by.
type Client struct {
	Token     string `json:"token" doc:"Token of a service account."`
	TokenFile string `json:"token_file" schema:"minLen=1,maxLen=500" doc:"File with the token; it is read before every request."`
}

// Selector chooses namespaces by one of its members.
type Selector struct {
	Equal    *string  `json:"equal" doc:"This one."`
	NotEqual *string  `json:"not_equal" doc:"All but this one."`
	Match    []string `json:"match" schema:"minItems=1" doc:"Those that match one of these expressions as a whole."`
	NotMatch []string `json:"not_match" schema:"minItems=1" doc:"Those that match none of these expressions as a whole."`
}

// defaultTokenFile is where a pod finds the token of its service account.
const defaultTokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// parse reads the configuration of one cluster or of several. They are returned
// as the Control API shows them, too: without tokens.
func parse(raw json.RawMessage) (list []Config, shown json.RawMessage, err error) {
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		c, shown, err := parseOne(raw)
		c.ID = ""
		return []Config{c}, shown, err
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return nil, nil, err
	}
	if len(elements) == 0 {
		return nil, nil, errors.New("expect array to have at least 1 items")
	}
	for i, element := range elements {
		err := checkElement(element)
		var c Config
		if err == nil {
			c, element, err = parseOne(element)
		}
		if err == nil && slices.ContainsFunc(list, func(o Config) bool { return o.ID == c.ID }) {
			err = errors.New("duplicate id value")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		list, elements[i] = append(list, c), element
	}
	shown, err = json.Marshal(elements)
	return list, shown, err
}

// checkElement asks for what an element of a list must have itself.
func checkElement(raw json.RawMessage) error {
	var given struct {
		ID      *json.RawMessage `json:"id"`
		Service *struct {
			Host *json.RawMessage `json:"host"`
			Port *json.RawMessage `json:"port"`
		} `json:"service"`
		Client *struct {
			Token     *json.RawMessage `json:"token"`
			TokenFile *json.RawMessage `json:"token_file"`
		} `json:"client"`
	}
	if err := json.Unmarshal(raw, &given); err != nil {
		return err
	}
	s, c := given.Service, given.Client
	switch {
	case given.ID == nil:
		return errors.New(`property "id" is required`)
	case s == nil:
		return errors.New(`property "service" is required`)
	case s.Host == nil, s.Port == nil:
		return errors.New(`property "service": host and port are required`)
	case c == nil:
		return errors.New(`property "client" is required`)
	case (c.Token == nil) == (c.TokenFile == nil):
		return errors.New(`property "client": one of token and token_file is required`)
	}
	return nil
}

func parseOne(raw json.RawMessage) (Config, json.RawMessage, error) {
	c, shown, err := discovery.Parse[Config](raw)
	if err != nil {
		return c, nil, err
	}
	if s := c.NamespaceSelector; s != nil && s.members() > 1 {
		return c, nil, errors.New(`property "namespace_selector": only one of equal, not_equal, match and not_match is possible`)
	}
	if c.Client.Token == "" {
		c.Client.TokenFile = cmp.Or(c.Client.TokenFile, defaultTokenFile)
		return c, shown, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(shown, &members); err != nil {
		return c, nil, err
	}
	if members["client"], err = discovery.Hide(members["client"], "token"); err != nil {
		return c, nil, err
	}
	shown, err = json.Marshal(members)
	return c, shown, err
}

func (s *Selector) members() (n int) {
	for _, given := range []bool{s.Equal != nil, s.NotEqual != nil, s.Match != nil, s.NotMatch != nil} {
		if given {
			n++
		}
	}
	return n
}

// compile returns whether services of a namespace are there.
func (s *Selector) compile() (func(namespace string) bool, error) {
	switch {
	case s == nil:
	case s.Equal != nil:
		return func(ns string) bool { return ns == *s.Equal }, nil
	case s.NotEqual != nil:
		return func(ns string) bool { return ns != *s.NotEqual }, nil
	case s.Match != nil:
		return anyOf(s.Match)
	case s.NotMatch != nil:
		match, err := anyOf(s.NotMatch)
		return func(ns string) bool { return !match(ns) }, err
	}
	return func(string) bool { return true }, nil
}

func anyOf(patterns []string) (func(string) bool, error) {
	var list []*regexp.Regexp
	for _, p := range patterns {
		re, err := regexp.Compile("^(?:" + p + ")$")
		if err != nil {
			return nil, fmt.Errorf("namespace_selector: %w", err)
		}
		list = append(list, re)
	}
	return func(s string) bool {
		return slices.ContainsFunc(list, func(re *regexp.Regexp) bool { return re.MatchString(s) })
	}, nil
}
