// Package keycloakrolecheck admits or refuses requests by the roles that Keycloak
// writes into tokens.
package keycloakrolecheck

import (
	"fmt"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is keycloak_role_check.
var Policy = plugin.Define(
	plugin.Meta{Name: "keycloak_role_check", Guard: true, Doc: "Admits or refuses requests by the realm and client roles in their token."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Type   string  `json:"type" schema:"default=whitelist,enum=whitelist|blacklist" doc:"whitelist: only requests within a scope pass. blacklist: those do not."`
	Scopes []Scope `json:"scopes" doc:"Resources with the roles that they take."`
}

// Scope is a resource with the roles that it takes, all of them.
type Scope struct {
	RealmRoles   []RealmRole  `json:"realm_roles" doc:"Roles of the realm."`
	ClientRoles  []ClientRole `json:"client_roles" doc:"Roles of clients."`
	Resource     string       `json:"resource" schema:"required" doc:"Pattern of the path, as in mapping rules."`
	ResourceType string       `json:"resource_type" schema:"default=plain,enum=plain|liquid" doc:"How the resource is evaluated."`
	Methods      []string     `json:"methods" doc:"Methods that are meant; default: ANY, which is all."`
}

// RealmRole is a role of the realm.
type RealmRole struct {
	Name     string `json:"name" schema:"required" doc:"Name of the role."`
	NameType string `json:"name_type" schema:"default=plain,enum=plain|liquid" doc:"How the name is evaluated."`
}

// ClientRole is a role of a client.
type ClientRole struct {
	Name       string `json:"name" schema:"required" doc:"Name of the role."`
	NameType   string `json:"name_type" schema:"default=plain,enum=plain|liquid" doc:"How the name is evaluated."`
	Client     string `json:"client" schema:"required" doc:"Name of the client."`
	ClientType string `json:"client_type" schema:"default=plain,enum=plain|liquid" doc:"How the client's name is evaluated."`
}

// A scope is a compiled one.
type scope struct {
	resource *threescale.Resource
	roles    []role
}

// A role of a client, or of the realm where there is no client.
type role struct{ name, client *threescale.Text }

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	scopes := make([]scope, len(c.Scopes))
	for i := range c.Scopes {
		var err error
		if scopes[i], err = c.Scopes[i].compile(); err != nil {
			return plugin.Phases{}, fmt.Errorf("scopes[%d]: %w", i, err)
		}
	}
	admit, refusal := c.Type == "whitelist", threescale.ProductOf(env).Failed
	return plugin.Phases{Access: func(r *plugin.Ctx) *plugin.Reply {
		within, err := anyHolds(scopes, r)
		if err != nil {
			env.Log.Warn("a resource out of a template is no pattern", "policy", "keycloak_role_check", "owner", env.Owner, "err", err)
			return refusal
		}
		if within != admit {
			return refusal
		}
		return nil
	}}, nil
}

func (k *Scope) compile() (s scope, err error) {
	if s.resource, err = threescale.NewResource(k.Resource, k.ResourceType, k.Methods); err != nil {
		return s, fmt.Errorf("resource: %w", err)
	}
	for i, given := range k.RealmRoles {
		name, err := threescale.NewText(given.Name, given.NameType)
		if err != nil {
			return s, fmt.Errorf("realm_roles[%d]: %w", i, err)
		}
		s.roles = append(s.roles, role{name: name})
	}
	for i, given := range k.ClientRoles {
		name, err := threescale.NewText(given.Name, given.NameType)
		if err != nil {
			return s, fmt.Errorf("client_roles[%d]: name: %w", i, err)
		}
		client, err := threescale.NewText(given.Client, given.ClientType)
		if err != nil {
			return s, fmt.Errorf("client_roles[%d]: client: %w", i, err)
		}
		s.roles = append(s.roles, role{name, client})
	}
	return s, nil
}

// anyHolds says whether the request is within a scope. Without a token it is in
// none.
func anyHolds(scopes []scope, c *plugin.Ctx) (bool, error) {
	token := threescale.Of(c).Token
	if token == nil {
		return false, nil
	}
	for i := range scopes {
		s := &scopes[i]
		covered, err := s.resource.Covers(c)
		if err != nil {
			return false, err
		}
		if covered && s.held(token.Claims, c) {
			return true, nil
		}
	}
	return false, nil
}

// held says that the token has all roles.
func (s *scope) held(claims map[string]any, c *plugin.Ctx) bool {
	for _, r := range s.roles {
		if !r.held(claims, c) {
			return false
		}
	}
	return true
}

func (r role) held(claims map[string]any, c *plugin.Ctx) bool {
	holder, _ := claims["realm_access"].(map[string]any)
	if r.client != nil {
		clients, _ := claims["resource_access"].(map[string]any)
		holder, _ = clients[r.client.Value(c)].(map[string]any)
	}
	roles, _ := holder["roles"].([]any)
	name := r.name.Value(c)
	for _, held := range roles {
		if held == name {
			return true
		}
	}
	return false
}
