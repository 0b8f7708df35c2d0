package portal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"weir/internal/dialect/apicast"
)

// perPage is the most that the portal gives at once.
const perPage = 500

// v2 is the portal's API with a configuration per service (apicast.md §3.2).
type v2 struct {
	*fetcher
	Config
	last *lastGood
}

var (
	errNoEndpoint    = errors.New("no portal is configured")
	errNoEnvironment = errors.New("missing environment")
	errPinnedPath    = errors.New("APICAST_SERVICE_%s_CONFIGURATION_VERSION cannot be used when proxy config path is provided")
)

// load returns the services of a host, or all; whole says that they are all,
// whatever the host.
func (p *v2) load(ctx context.Context, host string, v *visit) (services []*apicast.Entry, whole bool, err error) {
	u, err := url.Parse(p.Endpoint)
	switch {
	case err != nil:
		return nil, false, errors.New("the portal's URL cannot be read")
	case p.Environment == "":
		return nil, false, errNoEnvironment
	}
	hasPath := u.Path != "" && u.Path != "/"
	switch {
	case len(p.Versions) > 0 && hasPath:
		return nil, false, errPinnedPath
	case len(p.Versions) > 0:
		services, err = p.each(ctx, v)
		return services, true, err
	case hasPath:
		address := join(p.Endpoint, p.Environment+".json")
		if host != "" {
			address += "?" + url.Values{"host": {host}}.Encode()
		}
		services, err = reget(ctx, p.fetcher, question{address: address, visit: v}, readList)
	default:
		services, err = p.pages(ctx, host, v)
	}
	return services, host == "", err
}

func (p *v2) pages(ctx context.Context, host string, v *visit) (all []*apicast.Entry, err error) {
	base := join(p.Endpoint, "admin/api/account/proxy_configs/"+p.Environment+".json")
	query := url.Values{"version": {"latest"}, "per_page": {strconv.Itoa(perPage)}}
	if host != "" {
		query.Set("host", host)
	}
	seen := seen{}
	for n := 1; ; n++ {
		query.Set("page", strconv.Itoa(n))
		some, err := reget(ctx, p.fetcher, question{address: base + "?" + query.Encode(), visit: v}, readList)
		if err != nil {
			return nil, err
		}
		ids := make([]string, len(some))
		for i, e := range some {
			ids[i] = cmp.Or(e.ID, string(e.Service))
		}
		if !seen.brings(ids) {
			return all, nil
		}
		all = append(all, some...)
		switch {
		case len(some) != perPage:
			return all, nil
		case len(all) > apicast.MaxServices:
			return nil, apicast.ErrTooMany
		}
	}
}

// seen are the ids on the pages of a list.
type seen map[string]bool

// brings says whether a page has any id that was not seen: a server that knows no
// pages gives the first one for ever.
func (s seen) brings(ids []string) bool {
	before := len(s)
	for _, id := range ids {
		s[id] = true
	}
	return len(s) > before
}

// A proxyConfig is how the portal wraps a service.
type proxyConfig struct {
	ID      json.RawMessage `json:"id"` // its own, not the service's
	Content json.RawMessage `json:"content"`
}

func (c *proxyConfig) entry() *apicast.Entry { return readEntry(c.ID, c.Content) }

var errNoContent = errors.New("there is no content in it")

// readEntry reads the content, JSON, of a proxy_config with an id. content is nil
// if there is none. What is no service leaves the others in force.
func readEntry(id, content []byte) *apicast.Entry {
	e, err := (*apicast.Entry)(nil), errNoContent
	if content != nil {
		e, err = apicast.ReadEntry(content)
	}
	if err != nil {
		e = apicast.Unread(string(id), content, fmt.Errorf("proxy_config %.20s: %w", cmp.Or(string(id), "without an id"), err))
	}
	return e
}

// member reads one member, a list, of a JSON object. Without it this is not the
// answer of a portal, which says that there are no services with an empty list;
// Lua writes that as an object.
func member(body []byte, name string, into any) error {
	var o map[string]json.RawMessage
	if err := apicast.Unmarshal(body, &o); err != nil {
		return err
	}
	switch raw, there := o[name]; {
	case !there, string(raw) == "null":
		return fmt.Errorf("there is no %s in it", name)
	case string(raw) == "{}":
		return nil
	default:
		return apicast.Unmarshal(raw, into)
	}
}

func readConfigs(body []byte) ([]*apicast.Entry, error) {
	var configs []struct {
		Config *proxyConfig `json:"proxy_config"`
	}
	if err := member(body, "proxy_configs", &configs); err != nil {
		return nil, err
	}
	entries := make([]*apicast.Entry, 0, len(configs))
	for i, c := range configs {
		if c.Config == nil {
			return nil, fmt.Errorf("proxy_configs[%d] has no proxy_config", i)
		}
		entries = append(entries, c.Config.entry())
	}
	return entries, nil
}

// each asks for every service by itself, with its pinned version. One that the
// portal does not have is left out; one that it cannot give now is as it was.
func (p *v2) each(ctx context.Context, v *visit) ([]*apicast.Entry, error) {
	ids := p.Services
	if len(ids) == 0 {
		var err error
		if ids, err = p.list(ctx, v); err != nil {
			return nil, fmt.Errorf("list of services: %w", err)
		}
	}
	found := make([]*apicast.Entry, len(ids))
	const few = 8
	atOnce(few, len(ids), func(i int) {
		id := ids[i]
		version := cmp.Or(p.Versions[id], "latest")
		address := join(p.Endpoint, fmt.Sprintf("admin/api/services/%s/proxy/configs/%s/%s.json", url.PathEscape(id), p.Environment, url.PathEscape(version)))
		e, err := get(ctx, p.fetcher, question{address: address, visit: v}, readConfig)
		if err != nil && !errors.Is(err, statusError(http.StatusNotFound)) {
			e = p.last.of(id)
		}
		if err != nil {
			p.Log.Warn("the portal does not give the configuration of a service", "service", id, "kept", e != nil, "err", err)
		}
		found[i] = e
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries := make([]*apicast.Entry, 0, len(ids))
	for i, e := range found {
		switch {
		case e == nil:
			continue
		case e.Unread != nil:
			e = apicast.Unread(ids[i], e.Service, fmt.Errorf("service %s: %w", ids[i], e.Unread))
			e.ID = ids[i]
		default:
			p.last.keep(ids[i], e)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func readConfig(body []byte) (*apicast.Entry, error) {
	var d struct {
		Config *proxyConfig `json:"proxy_config"`
	}
	if err := apicast.Unmarshal(body, &d); err != nil {
		return nil, err
	}
	if d.Config == nil {
		return nil, errors.New("there is no proxy_config in it")
	}
	return d.Config.entry(), nil
}

// list asks for the ids of the services.
func (p *v2) list(ctx context.Context, v *visit) (ids []string, err error) {
	base := join(p.Endpoint, "admin/api/services.json")
	seen := seen{}
	for n := 1; ; n++ {
		query := url.Values{"page": {strconv.Itoa(n)}, "per_page": {strconv.Itoa(perPage)}}
		some, err := get(ctx, p.fetcher, question{address: base + "?" + query.Encode(), visit: v}, readServices)
		if err != nil {
			return nil, err
		}
		if !seen.brings(some) {
			return ids, nil
		}
		ids = append(ids, some...)
		switch {
		case len(some) != perPage:
			return ids, nil
		case len(ids) > apicast.MaxServices:
			return nil, apicast.ErrTooMany
		}
	}
}

func readServices(body []byte) ([]string, error) {
	var services []struct {
		Service struct {
			ID json.Number `json:"id"`
		} `json:"service"`
	}
	if err := member(body, "services", &services); err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(services))
	for i, s := range services {
		if s.Service.ID == "" {
			return nil, fmt.Errorf("services[%d] has no id", i)
		}
		ids = append(ids, s.Service.ID.String())
	}
	return ids, nil
}
