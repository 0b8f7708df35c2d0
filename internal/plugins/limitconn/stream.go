package limitconn

import (
	"weir/internal/plugin"
	"weir/internal/quota"
)

// Stream is limit-conn of stream routes: it bounds sessions, and counts them in
// this process.
var Stream = plugin.DefineStream(meta, compileStream)

// StreamConfig is the configuration on a stream route.
type StreamConfig struct {
	Conn                int     `json:"conn" schema:"required,exclusiveMin=0" doc:"Sessions under way that need not wait."`
	Burst               int     `json:"burst" schema:"required,min=0" doc:"Sessions beyond conn that are admitted after waiting."`
	DefaultConnDelay    float64 `json:"default_conn_delay" schema:"required,exclusiveMin=0" doc:"Seconds that a session usually takes. Adapts to what sessions really take."`
	OnlyUseDefaultDelay bool    `json:"only_use_default_delay" schema:"default=false" doc:"default_conn_delay does not adapt."`
	Key                 string  `json:"key" schema:"required" doc:"What tells clients apart, read as key_type says. The client's address stands in for an absent value."`
	KeyType             string  `json:"key_type" schema:"default=var,enum=var|var_combination" doc:"var: key is a variable's name. var_combination: a template."`
}

func compileStream(c *StreamConfig, env plugin.Env) (plugin.Stream, error) {
	p, err := compile(&Config{
		Conn: &quota.Positive{Amount: quota.Number(c.Conn)}, Burst: &quota.Natural{Amount: quota.Number(c.Burst)},
		DefaultConnDelay: c.DefaultConnDelay, OnlyUseDefaultDelay: c.OnlyUseDefaultDelay,
		Key: c.Key, KeyType: c.KeyType, Policy: "local", RejectedCode: 503,
	}, env)
	if err != nil {
		return plugin.Stream{}, err
	}
	return plugin.Stream{
		Preread: func(s *plugin.StreamCtx) *plugin.Reply { return p.Access(&s.Ctx) },
		Log:     func(s *plugin.StreamCtx) { p.Log(&s.Ctx) },
	}, nil
}
