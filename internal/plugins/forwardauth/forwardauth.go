// Package forwardauth asks another service whether a request may pass.
package forwardauth

import (
	"errors"
	"net/http"

	"weir/internal/plugin"
)

// Plugin is forward-auth as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     "forward-auth",
		Priority: 2002,
		Guard:    true,
		Doc:      "Asks an authorization service about every request.",
	},
	compile,
)

// Config is the configuration.
type Config struct {
	URI              string    `json:"uri" schema:"required" doc:"URL of the authorization service."`
	AllowDegradation bool      `json:"allow_degradation" schema:"default=false" doc:"Let requests pass while the service cannot be asked."`
	StatusOnError    int       `json:"status_on_error" schema:"min=200,max=599,default=403" doc:"Status while the service cannot be asked."`
	SSLVerify        bool      `json:"ssl_verify" schema:"default=true" doc:"Verify the service's certificate."`
	RequestMethod    string    `json:"request_method" schema:"default=GET,enum=GET|POST" doc:"Method of the question; POST sends the request's body, too."`
	MaxReqBodySize   int64     `json:"max_req_body_size" schema:"min=1,default=67108864" doc:"Largest body, in bytes, that is sent with POST; a larger one is answered 413."`
	RequestHeaders   []string  `json:"request_headers" schema:"default=[]" doc:"Headers of the request to send to the service."`
	ExtraHeaders     templates `json:"extra_headers" doc:"More headers to send to the service; values may contain variables."`
	UpstreamHeaders  []string  `json:"upstream_headers" schema:"default=[]" doc:"Headers of the service's answer to send upstream. What the client sent under these names is removed."`
	ClientHeaders    []string  `json:"client_headers" schema:"default=[]" doc:"Headers of the service's answer to send to the client with a refusal."`
	Timeout          int       `json:"timeout" schema:"min=1,max=60000,default=3000" doc:"Time for the whole answer, in milliseconds."`
	Keepalive        bool      `json:"keepalive" schema:"default=true" doc:"Use connections again."`
	KeepaliveTimeout int       `json:"keepalive_timeout" schema:"min=1000,default=60000" doc:"Time after which an idle connection is closed, in milliseconds."`
	KeepalivePool    int       `json:"keepalive_pool" schema:"min=1,default=5" doc:"Most idle connections."`
}

// templates are header values by name.
type templates map[string]string

// JSONSchema describes templates.
func (templates) JSONSchema() []byte {
	return []byte(`{"type": "object", "minProperties": 1, "patternProperties": {"^[^:]+$": {
		"type": "string",
		"description": "header value as a string; may contain variables like $remote_addr, $request_uri"
	}}}`)
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	s, err := newService(c)
	if err != nil {
		return plugin.Phases{}, err
	}
	large := &plugin.Reply{Status: http.StatusRequestEntityTooLarge}
	failed := &plugin.Reply{Status: c.StatusOnError}

	access := func(r *plugin.Ctx) *plugin.Reply {
		answer, err := s.query(env.Context, r)
		switch {
		case errors.Is(err, plugin.ErrBodyTooLarge):
			return large
		case err != nil:
			env.Log.Warn("the authorization service cannot be asked", "plugin", "forward-auth", "owner", env.Owner, "err", err)
			if _, out := errors.AsType[outage](err); !out || !c.AllowDegradation {
				return failed
			}
		case answer.status >= 300:
			return s.refusal(answer)
		}
		s.tell(r, answer.header)
		return nil
	}
	return plugin.Phases{Access: access, Close: s.client.CloseIdleConnections}, nil
}
