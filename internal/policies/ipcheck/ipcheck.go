// Package ipcheck admits or refuses callers by their IP address.
package ipcheck

import (
	"fmt"
	"strings"

	"weir/internal/expr"
	"weir/internal/plugin"
)

// Policy is ip_check.
var Policy = plugin.Define(
	plugin.Meta{Name: "ip_check", Guard: true, Doc: "Admits only listed IP addresses and networks, or refuses listed ones."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	CheckType string   `json:"check_type" schema:"required" doc:"whitelist: only the listed pass. blacklist: the listed do not. Anything else: all pass that have an address."`
	IPs       []string `json:"ips" schema:"required" doc:"Addresses and networks."`
	Message   string   `json:"error_msg" schema:"default=IP address not allowed" doc:"Body of a refusal."`
	Sources   []string `json:"client_ip_sources" doc:"Where the caller's address is looked for, in this order: last_caller (the default), X-Forwarded-For (its first address), X-Real-IP, proxy_protocol_addr."`
}

// A source finds the caller's address; empty: it has none.
type source func(*plugin.Ctx) string

// sources is immutable.
var sources = map[string]source{
	"last_caller": func(c *plugin.Ctx) string { return c.Client },
	"proxy_protocol_addr": func(c *plugin.Ctx) string {
		if !c.Proxied.IsValid() {
			return ""
		}
		return c.Proxied.Addr().String()
	},
	"X-Real-IP": func(c *plugin.Ctx) string {
		v, _ := c.Header("X-Real-IP")
		return v
	},
	"X-Forwarded-For": func(c *plugin.Ctx) string {
		v, _ := c.Header("X-Forwarded-For")
		first, _, _ := strings.Cut(v, ",")
		return first
	},
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	nets, err := networks(c, env)
	if err != nil {
		return plugin.Phases{}, err
	}
	from := []source{sources["last_caller"]}
	if c.Sources != nil {
		from = from[:0]
	}
	for _, name := range c.Sources {
		if s := sources[name]; s != nil {
			from = append(from, s)
		}
	}
	refusal := plugin.Text(403, c.Message+"\n")
	allow, refuse := c.CheckType == "whitelist", c.CheckType == "blacklist"
	return plugin.Phases{Access: func(r *plugin.Ctx) *plugin.Reply {
		listed, known := nets.holdsFirst(from, r)
		if !known || allow && !listed || refuse && listed {
			return refusal
		}
		return nil
	}}, nil
}

type list struct{ *expr.Networks }

// networks reads the list. What cannot be read is left out of a whitelist, as
// APIcast does; left out of a blacklist it would admit whom it was to refuse.
func networks(c *Config, env plugin.Env) (list, error) {
	good := make([]string, 0, len(c.IPs))
	for _, ip := range c.IPs {
		ip = strings.TrimSpace(ip)
		if _, err := expr.CompileNetworks([]string{ip}); err != nil {
			if c.CheckType != "whitelist" {
				return list{}, fmt.Errorf("ips: %w", err)
			}
			env.Log.Warn("an entry of ips is left out", "policy", "ip_check", "owner", env.Owner, "err", err)
			continue
		}
		good = append(good, ip)
	}
	nets, err := expr.CompileNetworks(good)
	return list{nets}, err
}

// holdsFirst says whether the list holds the address of the first source that has
// something to say; known is false if none has, or if that is no address.
func (l list) holdsFirst(from []source, r *plugin.Ctx) (listed, known bool) {
	for _, find := range from {
		text := strings.TrimSpace(find(r))
		if text == "" {
			continue
		}
		who, ok := plugin.ParseClient(text)
		return ok && l.ContainAddr(who.Addr()), ok
	}
	return false, false
}
