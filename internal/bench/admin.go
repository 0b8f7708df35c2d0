package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// adminTimeout bounds one call of the Admin API, which may wait for a gateway
// that rebuilds everything.
const adminTimeout = 30 * time.Second

// An adminClient calls the Admin API.
type adminClient struct {
	base string // http://host:port
	key  string
	http *http.Client
}

func newAdminClient(base, key string) *adminClient {
	transport := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
	return &adminClient{base: strings.TrimRight(base, "/"), key: key, http: &http.Client{Transport: transport}}
}

// create writes documents in their order.
func (a *adminClient) create(ctx context.Context, docs []document) error {
	for _, d := range docs {
		if err := a.call(ctx, http.MethodPut, d.key, "{"+d.members+"}"); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes documents in the opposite order. It forces, since APISIX
// checks references on a view that may lag behind the route just deleted.
func (a *adminClient) remove(ctx context.Context, docs []document) error {
	for i := len(docs) - 1; i >= 0; i-- {
		query := ""
		if len(docs) > 1 {
			query = "?force=true"
		}
		if err := a.call(ctx, http.MethodDelete, docs[i].key+query, ""); err != nil {
			return err
		}
	}
	return nil
}

func (a *adminClient) call(ctx context.Context, method, path, body string) error {
	got, err := a.ask(ctx, method, path, body)
	if err == nil && got.status/100 != 2 {
		err = fmt.Errorf("%s %s: %d %.200s", method, path, got.status, strings.TrimSpace(got.text))
	}
	return err
}

// An adminAnswer is what the Admin API says.
type adminAnswer struct {
	status int
	text   string
	late   bool // stored, but not yet live
}

// ask calls the Admin API; an answer of any status is no error.
func (a *adminClient) ask(ctx context.Context, method, path, body string) (adminAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.base+"/apisix/admin/"+path, strings.NewReader(body))
	if err != nil {
		return adminAnswer{}, err
	}
	req.Header.Set("X-API-KEY", a.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		return adminAnswer{}, err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return adminAnswer{resp.StatusCode, string(text), resp.Header.Get("X-Weir-Applied") == "false"}, nil
}
