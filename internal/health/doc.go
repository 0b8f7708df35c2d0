// Package health finds out which nodes of an upstream can be used: by asking
// them from time to time (active checks) and by what requests met (passive
// checks). Defaults, thresholds and states are those of APISIX's upstream
// checks (lua-resty-healthcheck).
package health
