// Package defaultcredentials has callers pass who show no credentials.
package defaultcredentials

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is default_credentials.
var Policy = plugin.Define(
	plugin.Meta{
		Name: "default_credentials", Before: []string{"apicast"},
		Doc: "Take these credentials for those of callers that show none (anonymous access).",
	},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	AuthType string `json:"auth_type" schema:"default=user_key" doc:"user_key or app_id_and_app_key."`
	UserKey  string `json:"user_key" doc:"Key of callers without one."`
	AppID    string `json:"app_id" doc:"Application of callers without one."`
	AppKey   string `json:"app_key" doc:"Its key."`
}

func compile(conf *Config, env plugin.Env) (plugin.Phases, error) {
	p := threescale.ProductOf(env)
	given := threescale.Credentials{UserKey: conf.UserKey}
	if p.BackendVersion == "2" {
		given = threescale.Credentials{AppID: conf.AppID, AppKey: conf.AppKey}
	}
	if p.BackendVersion != "1" && p.BackendVersion != "2" {
		env.Log.Error("default credentials do nothing: incompatible backend version", "product", p.ID, "backend_version", p.BackendVersion)
		return plugin.Phases{}, nil
	}
	if !p.Complete(&given) {
		env.Log.Warn("no default credentials are configured", "product", p.ID)
		return plugin.Phases{}, nil
	}
	return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
		r := threescale.Of(c)
		if shown := r.FindCredentials(c); r.Credentials.None() && shown.None() {
			r.Credentials = given
		}
		return nil
	}}, nil
}
