package kubernetes

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"weir/internal/discovery"
)

const (
	connectTimeout = 2 * time.Second
	// answerTimeout bounds a list, and the wait for a watch to begin.
	answerTimeout = 10 * time.Second
)

// A cluster is one API server.
type cluster struct {
	config *Config
	env    discovery.Env
	client *discovery.Client
	allows func(namespace string) bool
	answer time.Duration // answerTimeout

	// length is how long a watch lasts: half of it, and as much again at random.
	length time.Duration

	// steady is how long a watch must have lasted for its end to be nothing
	// unusual.
	steady time.Duration
}

func newCluster(c *Config, env discovery.Env) (*cluster, error) {
	allows, err := c.NamespaceSelector.compile()
	if err != nil {
		return nil, err
	}
	return &cluster{
		config: c, env: env.Filled(), allows: allows, answer: answerTimeout, length: time.Hour, steady: 10 * time.Second,
		client: discovery.NewClient(discovery.ClientOptions{
			Connect: connectTimeout,
			TLS:     &tls.Config{RootCAs: env.Roots, InsecureSkipVerify: !c.Service.SSLVerify},
		}),
	}, nil
}

// request asks for the objects that hold the endpoints of s.
func (c *cluster) request(s service, args url.Values) (*http.Request, error) {
	address, err := c.address()
	if err != nil {
		return nil, err
	}
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	path := "/api/v1/namespaces/" + url.PathEscape(s.namespace) + "/endpoints"
	labels := c.config.LabelSelector
	if c.config.WatchEndpointSlices {
		path = "/apis/discovery.k8s.io/v1/namespaces/" + url.PathEscape(s.namespace) + "/endpointslices"
		labels = strings.TrimSuffix(serviceLabel+"="+s.name+","+labels, ",")
	} else {
		args.Set("fieldSelector", "metadata.name="+s.name)
	}
	if labels != "" {
		args.Set("labelSelector", labels)
	}
	r, err := http.NewRequest(http.MethodGet, c.config.Service.Schema+"://"+address+path+"?"+args.Encode(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r, nil
}

// serviceLabel is how an EndpointSlice names its service.
const serviceLabel = "kubernetes.io/service-name"

// address is host:port of the API server.
func (c *cluster) address() (string, error) {
	host, err := variable(c.config.Service.Host)
	if err != nil {
		return "", err
	}
	if host == "" {
		return "", errors.New("service.host should set to non-empty string")
	}
	port, err := variable(string(c.config.Service.Port))
	if err != nil {
		return "", err
	}
	if n, err := strconv.Atoi(port); err != nil || n <= 0 || n > 65535 {
		return "", errors.New("invalid port value: " + port)
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port), nil
}

// token is the current one: files of tokens change.
func (c *cluster) token() (token string, err error) {
	if c.config.Client.Token != "" {
		token, err = variable(c.config.Client.Token)
	} else {
		var file string
		if file, err = variable(c.config.Client.TokenFile); err == nil {
			var b []byte
			b, err = os.ReadFile(file)
			token = string(b)
		}
	}
	if err != nil {
		return "", err
	}
	token = strings.TrimSpace(token)
	if token == "" && c.config.Service.Schema == "https" {
		return "", errors.New("apiserver.token should set to non-empty string when service.schema is https")
	}
	return token, nil
}

// variable is the value of ${NAME} in the environment; any other text is itself.
func variable(text string) (string, error) {
	name, ok := strings.CutPrefix(text, "${")
	if !ok || !strings.HasSuffix(name, "}") {
		return text, nil
	}
	name = strings.TrimSuffix(name, "}")
	value, ok := os.LookupEnv(name)
	if !ok {
		return "", fmt.Errorf("not found environment variable %s", name)
	}
	return value, nil
}
