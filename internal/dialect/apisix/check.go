package apisix

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/schema"
)

// Options are what a Checker cannot know itself.
type Options struct {
	// Vars reports what is wrong with an expression (apisix-runtime.md section
	// 4.5). nil: expressions are not checked.
	Vars func(expression json.RawMessage) error

	// Proto reports what is wrong with the content of a proto object. nil: it is not
	// checked.
	Proto func(content string) error

	// OpenKey returns a private key that is stored encrypted in plain text. nil:
	// encrypted keys are not looked at.
	OpenKey func(stored string) (pem string, ok bool)

	// Stapling reports whether the plugin ocsp-stapling is enabled, which gives ssl
	// objects one more member. nil: it may be.
	Stapling func() bool
}

// A Checker checks documents as APISIX's Admin API does before it stores them.
// It is immutable and safe for concurrent use.
type Checker struct {
	opt     Options
	kinds   [model.KindCount]*schema.Schema
	secrets map[string]*schema.Schema // by manager
	hashKey map[string]*schema.Schema // by hash_on; consumer has none
	named   map[string]string
	stapled *schema.Schema // of ssl objects, with the plugin ocsp-stapling
}

// New makes a Checker.
func New(opt Options) *Checker {
	c := &Checker{opt: opt, named: map[string]string{}, secrets: map[string]*schema.Schema{}, hashKey: map[string]*schema.Schema{}}
	c.stapled = schema.Parse("ssl", []byte(schemaSSLStapling))
	for kind, doc := range map[model.Kind]string{
		model.KindRoute:          schemaRoute,
		model.KindService:        schemaService,
		model.KindUpstream:       schemaUpstream,
		model.KindConsumer:       schemaConsumer,
		model.KindCredential:     schemaCredential,
		model.KindConsumerGroup:  schemaConsumerGroup,
		model.KindPluginConfig:   schemaPluginConfig,
		model.KindGlobalRule:     schemaGlobalRule,
		model.KindSSL:            schemaSSL,
		model.KindProto:          schemaProto,
		model.KindStreamRoute:    schemaStreamRoute,
		model.KindPlugins:        schemaPlugins,
		model.KindCostDecoration: schemaCostDecoration,
	} {
		name := strings.ReplaceAll(kind.String(), " ", "_")
		c.kinds[kind], c.named[name] = schema.Parse(name, []byte(doc)), doc
	}
	for manager, doc := range map[string]string{"vault": schemaVault, "aws": schemaAWS, "gcp": schemaGCP} {
		c.secrets[manager] = schema.Parse(manager, []byte(doc))
	}
	for on, doc := range map[string]string{"vars": schemaHashVars, "header": schemaHashName, "cookie": schemaHashName, "vars_combinations": schemaHashMix} {
		c.hashKey[on] = schema.Parse("key by "+on, []byte(doc))
	}
	for name, doc := range map[string]string{
		"plugin_injected_schema":                 `{"_meta":` + SchemaMeta + `}`,
		"id_schema":                              defID,
		"host_def":                               defHost,
		"upstream_hash_vars_schema":              schemaHashVars,
		"upstream_hash_header_schema":            schemaHashName,
		"upstream_hash_vars_combinations_schema": schemaHashMix,
	} {
		c.named[name] = doc
	}
	return c
}

// Schema returns the JSON Schema that has the name in the Admin API, for
// instance "route".
func (c *Checker) Schema(name string) (json.RawMessage, bool) {
	doc, ok := c.named[name]
	if name == "ssl" && c.staples() {
		doc = schemaSSLStapling
	}
	return json.RawMessage(doc), ok
}

func (c *Checker) staples() bool { return c.opt.Stapling == nil || c.opt.Stapling() }

// schemaOf is the schema of a kind of objects; nil: it has none.
func (c *Checker) schemaOf(kind model.Kind) *schema.Schema {
	if kind == model.KindSSL && c.staples() {
		return c.stapled
	}
	return c.kinds[kind]
}

// CheckSchema checks a document by its JSON Schema alone. Kinds without one
// (plugin metadata, secrets) pass.
func (c *Checker) CheckSchema(kind model.Kind, raw []byte) error {
	if s := c.schemaOf(kind); s != nil {
		return s.Check(raw)
	}
	_, err := document.Parse(raw)
	return err
}

// Fill returns a document as APISIX holds it: with the defaults of its schema,
// and the nodes of upstreams as a list. One that does not satisfy its schema comes
// as it is.
func (c *Checker) Fill(kind model.Kind, raw []byte) *document.Value {
	if s := c.schemaOf(kind); s != nil {
		if filled, err := s.Fill(raw); err == nil {
			raw = filled
		}
	}
	v, err := document.Parse(raw)
	if err != nil {
		return document.NewString(string(raw))
	}
	listNodes(v)
	listNodes(v.Get("upstream"))
	return v
}

// listNodes turns nodes that are written as an object into a list.
func listNodes(up *document.Value) {
	nodes := up.Get("nodes")
	if !nodes.Is(document.Object) {
		return
	}
	list := &document.Value{Kind: document.Array}
	for _, m := range nodes.Members {
		host, port := SplitAddr(m.Name)
		n := document.NewObject()
		n.Set("host", document.NewString(host))
		if port != 0 {
			n.Set("port", document.NewInt(int64(port)))
		}
		n.Set("weight", m.Value)
		list.Items = append(list.Items, n)
	}
	up.Set("nodes", list)
}

// Check reports why APISIX would refuse to store a document: its schema, then
// the rules between its members. It does not check what it would have to look
// up elsewhere: references, plugins, ownership of keys. The error's text is the
// error_msg of the Admin API.
func (c *Checker) Check(kind model.Kind, raw []byte) error {
	v, err := document.Parse(raw)
	if err != nil {
		return fmt.Errorf("invalid configuration: %w", err)
	}
	if !v.Is(document.Object) && kind != model.KindPlugins {
		return fmt.Errorf("invalid configuration: wrong type: expected object, got %s", luaType(v))
	}
	switch kind {
	case model.KindRoute:
		if v.Get("host") != nil && v.Get("hosts") != nil {
			return errors.New("only one of host or hosts is allowed")
		}
		if v.Get("remote_addr") != nil && v.Get("remote_addrs") != nil {
			return errors.New("only one of remote_addr or remote_addrs is allowed")
		}
	case model.KindUpstream:
		if err := checkNodeHosts(v); err != nil {
			return err
		}
	}
	if err := c.CheckSchema(kind, raw); err != nil {
		return fmt.Errorf("invalid configuration: %w", err)
	}
	switch kind {
	case model.KindUpstream:
		return c.checkUpstream(v)
	case model.KindRoute, model.KindService:
		return c.checkRoute(v)
	case model.KindSSL:
		return c.checkSSL(v)
	case model.KindProto:
		if c.opt.Proto == nil {
			return nil
		}
		if err := c.opt.Proto(v.Get("content").Text); err != nil {
			return fmt.Errorf("invalid content: %w", err)
		}
	case model.KindStreamRoute:
		return checkStreamRoute(v)
	}
	return nil
}

// CheckSecret checks the configuration of a secret manager.
func (c *Checker) CheckSecret(manager string, raw []byte) error {
	s := c.secrets[manager]
	if s == nil {
		return fmt.Errorf("invalid secret manager: %s", manager)
	}
	if err := s.Check(raw); err != nil {
		return fmt.Errorf("invalid configuration: %w", err)
	}
	return nil
}

// checkRoute is for services too, which have some of a route's members.
func (c *Checker) checkRoute(v *document.Value) error {
	if up := v.Get("upstream"); up != nil {
		if err := checkNodeHosts(up); err != nil {
			return err
		}
		if err := c.checkUpstream(up); err != nil {
			return err
		}
	}
	if vars := v.Get("vars"); vars != nil && c.opt.Vars != nil {
		if err := c.opt.Vars(vars.Append(nil)); err != nil {
			return fmt.Errorf("failed to validate the 'vars' expression: %w", err)
		}
	}
	for _, member := range []string{"filter_func", "script"} {
		if v.Get(member) != nil {
			return fmt.Errorf("failed to load '%s' string: Lua is not supported by this version of Weir", member)
		}
	}
	return nil
}

// checkNodeHosts looks at the nodes in array form, before the schema does.
func checkNodeHosts(up *document.Value) error {
	nodes := up.Get("nodes")
	if !nodes.Is(document.Array) {
		return nil
	}
	for _, n := range nodes.Items {
		host := n.Get("host")
		if !host.Is(document.String) {
			continue
		}
		if a, err := netip.ParseAddr(host.Text); err == nil && a.Is6() {
			return errors.New("invalid configuration: IPv6 address must be enclosed with '[' and ']'")
		}
	}
	return nil
}

func (c *Checker) checkUpstream(up *document.Value) error {
	if nodes := up.Get("nodes"); nodes.Is(document.Object) {
		for _, n := range nodes.Members {
			if _, port, there := splitAddr(n.Name); there && (port < 1 || port > 65535) {
				return fmt.Errorf("invalid port %d", port)
			}
		}
	}
	text := func(name, otherwise string) string {
		if s := up.Get(name); s.Is(document.String) {
			return s.Text
		}
		return otherwise
	}
	if text("pass_host", "") == "rewrite" && text("upstream_host", "") == "" {
		return errors.New("`upstream_host` can't be empty when `pass_host` is `rewrite`")
	}
	if tls := up.Get("tls"); tls.Get("client_cert") != nil {
		if err := c.checkPair(tls.Get("client_cert"), tls.Get("client_key")); err != nil {
			return err
		}
	}
	if text("type", "roundrobin") != "chash" {
		return nil
	}
	on, key := text("hash_on", "vars"), up.Get("key")
	if on == "consumer" {
		return nil
	}
	if key == nil {
		return errors.New("missing key")
	}
	if err := c.hashKey[on].Check(key.Append(nil)); err != nil {
		return fmt.Errorf("invalid configuration: %w", err)
	}
	return nil
}

// checkStreamRoute repeats what the schema says of addresses, which lets
// "1::/200" pass.
func checkStreamRoute(v *document.Value) error {
	for _, name := range []string{"remote_addr", "server_addr"} {
		if a := v.Get(name); a != nil {
			if _, err := prefix(a.Text); err != nil {
				return fmt.Errorf("invalid %s: %s", name, a.Text)
			}
		}
	}
	return nil
}

func luaType(v *document.Value) string {
	switch v.Kind {
	case document.Array, document.Object:
		return "table"
	case document.Null:
		return "userdata"
	}
	return v.Kind.String()
}
