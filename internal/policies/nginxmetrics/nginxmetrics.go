// Package nginxmetrics stands for a policy that has nothing to do here.
package nginxmetrics

import "weir/internal/plugin"

// Policy is nginx_metrics.
var Policy = plugin.Define(
	plugin.Meta{Name: "nginx_metrics", Doc: "Accepted and without effect: the gateway counts every request (apicast.md §8)."},
	func(*Config, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
)

// Config is the policy's configuration, none of which matters.
type Config struct{}
