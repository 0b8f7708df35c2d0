// Package consumerrestriction admits or refuses consumers, groups, services or
// routes by name.
package consumerrestriction

import (
	"weir/internal/plugin"
	"weir/internal/schema"
)

// Plugin is consumer-restriction as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     "consumer-restriction",
		Priority: 2400,
		Guard:    true,
		Doc:      "Admits or refuses requests by the name of their consumer, consumer group, service or route.",
	},
	compile,
	plugin.Shared(),
)

// Config is the configuration.
type Config struct {
	Type             string   `json:"type" schema:"enum=consumer_name|service_id|route_id|consumer_group_id,default=consumer_name" doc:"What the lists contain."`
	Blacklist        []string `json:"blacklist" schema:"minItems=1" doc:"Refused; asked first."`
	Whitelist        []string `json:"whitelist" schema:"minItems=1" doc:"Admitted, whatever the method; others are refused."`
	AllowedByMethods []Entry  `json:"allowed_by_methods" doc:"Methods that those listed here may use; those who are not may use any."`
	RejectedCode     int      `json:"rejected_code" schema:"min=200,default=403" doc:"Status of a refusal."`
	RejectedMsg      *string  `json:"rejected_msg" doc:"Message of a refusal."`
}

// An Entry says which methods somebody may use.
type Entry struct {
	User    *string  `json:"user" doc:"Who."`
	Methods []string `json:"methods" schema:"minItems=1,each.enum=GET|POST|PUT|DELETE|PATCH|HEAD|OPTIONS|CONNECT|TRACE|PURGE" doc:"The methods."`
}

// Constraints demands some list.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.AtLeastOne([]string{"blacklist"}, []string{"whitelist"}, []string{"allowed_by_methods"})}
}

// A set of names.
type set map[string]bool

func setOf(names []string) set {
	s := set{}
	for _, n := range names {
		s[n] = true
	}
	return s
}

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	message := "The " + c.Type + " is forbidden."
	if c.RejectedMsg != nil {
		message = *c.RejectedMsg
	}
	refuse := func(status int, message string) *plugin.Reply {
		return plugin.JSON(status, map[string]string{"message": message})
	}
	forbidden := refuse(c.RejectedCode, message)
	absent := refuse(401, "The request is rejected, please check the "+c.Type+" for this request")

	black, white, methods := setOf(c.Blacklist), setOf(c.Whitelist), methodsOf(c.AllowedByMethods)
	name := names[c.Type]
	access := func(r *plugin.Ctx) *plugin.Reply {
		who := name(r)
		switch {
		case who == "":
			return absent
		case black[who], c.Whitelist != nil && !white[who]:
			return forbidden
		case white[who]:
			return nil
		}
		if allowed, listed := methods[who]; listed && !allowed[r.Request.Method] {
			return forbidden
		}
		return nil
	}
	return plugin.Phases{Access: access}, nil
}

// methodsOf is what each of the listed may use; the first entry of a name counts.
func methodsOf(entries []Entry) map[string]set {
	m := map[string]set{}
	for _, e := range entries {
		if e.User == nil {
			continue
		}
		if _, there := m[*e.User]; !there {
			m[*e.User] = setOf(e.Methods)
		}
	}
	return m
}

// names read what the types mean; an empty name is none.
var names = map[string]func(*plugin.Ctx) string{
	"consumer_name": func(r *plugin.Ctx) string {
		if r.Consumer == nil {
			return ""
		}
		return r.Consumer.Name
	},
	"consumer_group_id": func(r *plugin.Ctx) string {
		if r.Consumer == nil {
			return ""
		}
		return r.Consumer.GroupID
	},
	"service_id": func(r *plugin.Ctx) string {
		if r.Route == nil {
			return ""
		}
		return r.Route.ServiceID
	},
	"route_id": func(r *plugin.Ctx) string {
		if r.Route == nil {
			return ""
		}
		return r.Route.ID
	},
}
