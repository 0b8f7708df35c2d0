// Package nodestatus tells about the connections of clients.
package nodestatus

import (
	"encoding/json"
	"strconv"

	"weir/internal/plugin"
)

// Plugin is node-status as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     "node-status",
		Priority: 1000,
		Scope:    "global",
		Doc:      "Offers an API, /apisix/status, that counts the connections of clients.",
	},
	func(*Config, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
	plugin.Endpoints(endpoints),
)

// Config is empty.
type Config struct{}

// An answer has the members that nginx's stub_status has, as text.
type answer struct {
	ID     string `json:"id"`
	Status status `json:"status"`
}

type status struct {
	Total    string `json:"total"` // requests
	Accepted string `json:"accepted"`
	Handled  string `json:"handled"`
	Active   string `json:"active"`
	Reading  string `json:"reading"`
	Writing  string `json:"writing"`
	Waiting  string `json:"waiting"`
}

func endpoints(env plugin.Env) []plugin.Endpoint {
	serve := func(*plugin.Ctx) *plugin.Reply {
		n := env.Connections()
		text := func(i int64) string { return strconv.FormatInt(i, 10) }
		body, err := json.Marshal(answer{ID: env.ID, Status: status{
			Total: text(n.Requests), Accepted: text(n.Accepted), Handled: text(n.Accepted), Active: text(n.Active),
			Reading: "0", Writing: text(n.Busy), Waiting: text(n.Active - n.Busy),
		}})
		if err != nil {
			return &plugin.Reply{Status: 500}
		}
		return &plugin.Reply{Status: 200, Body: body}
	}
	return []plugin.Endpoint{{Methods: []string{"GET"}, Path: "/apisix/status", Serve: serve}}
}
