package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// exampleKey is the example consumer's API key; it opens nothing else.
const exampleKey = "jack-key"

// adminURL is the root of the Admin API.
func (g *Gateway) adminURL() string {
	scheme := "http"
	if g.Config.Deployment.Admin.HTTPS {
		scheme = "https"
	}
	return scheme + "://" + g.admin.Addr().String() + "/apisix/admin"
}

// example configures, as a user would, an upstream to the echo server, a
// consumer and a route that asks for the consumer's key.
func (g *Gateway) example(ctx context.Context) error {
	switch {
	case g.admin == nil:
		return errors.New("the Admin API is off")
	case g.Config.Deployment.Admin.HTTPS:
		return errors.New("the Admin API is behind TLS")
	case len(g.data) == 0:
		return errors.New("no address serves requests")
	}
	for _, o := range []struct{ path, body string }{
		{"/upstreams/example", fmt.Sprintf(`{"type":"roundrobin","nodes":{%q:1}}`, g.echo.Addr())},
		{"/consumers", `{"username":"jack","plugins":{"key-auth":{"key":"` + exampleKey + `"}}}`},
		{"/routes/example", `{"uri":"/hello","plugins":{"key-auth":{}},"upstream_id":"example"}`},
	} {
		if err := g.put(ctx, o.path, o.body); err != nil {
			return err
		}
	}
	g.sayExample()
	return nil
}

// put writes one object through the Admin API.
func (g *Gateway) put(ctx context.Context, path, body string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, g.adminURL()+path, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	for _, k := range g.keys {
		if k.Role == "admin" {
			req.Header.Set("X-API-KEY", k.Key.Reveal())
			break
		}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		answer, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
		return fmt.Errorf("PUT %s: status %d: %s", path, res.StatusCode, bytes.TrimSpace(answer))
	}
	return nil
}

func (g *Gateway) sayExample() {
	proxy := "http://" + reachable(g.data[0].Addr().String())
	key := "KEY"
	for _, k := range g.keys {
		if k.file != "" {
			key = "$(cat " + k.file + ")"
		}
	}
	fmt.Fprintf(g.Out, `
An example is configured: route /hello to an echo server, for consumers with a key. Try

  curl -i %[1]s/hello                        # 401, no key
  curl -i %[1]s/hello -H 'apikey: %[2]s'   # 200 from the echo server
  curl %[3]s/routes/example -H "X-API-KEY: %[4]s"
  curl %[3]s/consumers/ann -X PUT -H "X-API-KEY: %[4]s" \
       -d '{"username":"ann","plugins":{"key-auth":{"key":"ann-key"}}}'
  curl -i %[1]s/hello -H 'apikey: ann-key'    # 200 at once
  curl %[3]s/consumers/ann -X DELETE -H "X-API-KEY: %[4]s"
  curl -i %[1]s/hello -H 'apikey: ann-key'    # 401 at once

`, proxy, exampleKey, g.adminURL(), key)
}

// reachable is a listener's address as a client on this machine writes it.
func reachable(addr string) string {
	if port, ok := strings.CutPrefix(addr, "0.0.0.0:"); ok {
		return "127.0.0.1:" + port
	}
	return addr
}
