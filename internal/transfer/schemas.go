package transfer

import (
	"strings"

	"weir/internal/dialect/apisix"
	"weir/internal/document"
	"weir/internal/keyring"
	"weir/internal/model"
	"weir/internal/schema"
)

// A Plugin is what this package must know of a plugin of this build.
type Plugin struct {
	Config     *schema.Schema
	Credential *schema.Schema // what consumers hold; nil: nothing
	Metadata   *schema.Schema // nil: it has none
}

// Schemas know the documents of every kind: what their defaults are and where
// their secrets lie. They are immutable.
type Schemas struct {
	plugins map[string]Plugin
	ring    *keyring.Ring
	encrypt bool
	kinds   [model.KindCount]*schema.Schema
}

// NewSchemas makes the Schemas of a build with the given plugins. The ring opens
// and seals secrets; encrypt says that those of plugins are stored sealed
// (apisix.data_encryption.enable_encrypt_fields), as private keys always are.
func NewSchemas(plugins map[string]Plugin, ring *keyring.Ring, encrypt bool) *Schemas {
	s := &Schemas{plugins: plugins, ring: ring, encrypt: encrypt}
	checker := apisix.New(apisix.Options{})
	for k := range model.KindCount {
		name := strings.ReplaceAll(k.String(), " ", "_")
		if doc, ok := checker.Schema(name); ok {
			s.kinds[k] = schema.Parse(name, doc)
		}
	}
	return s
}

// filled is an object with its defaults, as far as they are known. What does
// not satisfy its schema stays as it is.
func (s *Schemas) filled(key model.Key, v *document.Value) *document.Value {
	if k := s.kinds[key.Kind]; k != nil {
		v = fill(k, withID(key, v))
		v.Delete("id")
	}
	if p := s.plugins[key.ID]; key.Kind == model.KindPluginMetadata && p.Metadata != nil {
		return fill(p.Metadata, v)
	}
	confs := v.Get("plugins")
	if !confs.Is(document.Object) {
		return v
	}
	for i, m := range confs.Members {
		if p, ok := s.plugins[m.Name]; ok {
			confs.Members[i].Value = fill(p.of(key.Kind), m.Value)
		}
	}
	return v
}

// of is the schema of the plugin's configuration in an object of a kind.
func (p Plugin) of(kind model.Kind) *schema.Schema {
	if holds(kind) && p.Credential != nil {
		return p.Credential
	}
	return p.Config
}

// holds says that objects of a kind hold credentials.
func holds(kind model.Kind) bool { return kind == model.KindConsumer || kind == model.KindCredential }

func fill(s *schema.Schema, v *document.Value) *document.Value {
	text, err := s.Fill(v.Append(nil))
	if err != nil {
		return v
	}
	full, err := document.Parse(text)
	if err != nil {
		return v
	}
	return full
}

// eachSecret calls edit with every secret of plugins in an object and the name
// of the plugin, and puts what it returns in its place.
func (s *Schemas) eachSecret(key model.Key, v *document.Value, edit func(plugin, text string) string) {
	of := func(plugin string, conf *document.Value) {
		for _, path := range s.secretPaths(plugin, key.Kind) {
			conf.Strings(path, func(text string) string { return edit(plugin, text) })
		}
	}
	if key.Kind == model.KindPluginMetadata {
		of(key.ID, v)
		return
	}
	confs := v.Get("plugins")
	if !confs.Is(document.Object) {
		return
	}
	for _, m := range confs.Members {
		of(m.Name, m.Value)
	}
}

// secretPaths are the paths of a plugin's secrets in objects of a kind.
func (s *Schemas) secretPaths(plugin string, kind model.Kind) []string {
	known := secretsOf(plugin)
	p, ours := s.plugins[plugin]
	switch {
	case kind == model.KindPluginMetadata && ours && p.Metadata != nil:
		return p.Metadata.Secrets()
	case kind == model.KindPluginMetadata:
		return known.metadata
	case ours:
		return p.of(kind).Secrets()
	case holds(kind) && known.held != nil:
		return known.held
	}
	return known.config
}

// eachPrivateKey calls edit with every private key of certificates in an object.
func eachPrivateKey(kind model.Kind, v *document.Value, edit func(string) string) {
	if kind == model.KindSSL {
		v.Strings("key", edit)
		v.Strings("keys", edit)
		return
	}
	v.Strings("tls.client_key", edit)
	v.Strings("upstream.tls.client_key", edit)
}

// Open decrypts the secrets of an object in place. What the ring does not open
// stays.
func (s *Schemas) Open(key model.Key, v *document.Value) {
	if s.encrypt {
		s.eachSecret(key, v, s.opened)
	}
	eachPrivateKey(key.Kind, v, func(text string) string {
		if plain, ok := s.ring.OpenKey(text); ok && strings.HasPrefix(plain, "---") {
			return plain
		}
		return text
	})
}

func (s *Schemas) opened(_, stored string) string {
	plain, _ := s.ring.Decrypt(stored)
	return plain
}

// Seal brings the secrets of an object into the form in which they are stored,
// in place. What is sealed already is sealed with the first key of the ring.
func (s *Schemas) Seal(key model.Key, v *document.Value) {
	s.Open(key, v)
	if s.encrypt {
		s.eachSecret(key, v, func(_, text string) string { return s.ring.Encrypt(text) })
	}
	eachPrivateKey(key.Kind, v, s.ring.EncryptKey)
}

// Mask replaces every secret of an object, in place, by what hide returns for
// it.
func (s *Schemas) Mask(key model.Key, v *document.Value, hide func(string) string) {
	s.eachSecret(key, v, func(_, text string) string { return hide(text) })
	eachPrivateKey(key.Kind, v, hide)
	if key.Kind == model.KindSecret {
		for _, path := range []string{"token", "secret_access_key", "session_token", "auth_config.private_key"} {
			v.Strings(path, hide)
		}
	}
}

// secretNames are the paths of a plugin's secrets: in its configuration, in what
// consumers hold (nil: the same) and in its metadata.
type secretNames struct{ config, held, metadata []string }

// secretsOf lists the encrypt_fields of APISIX 3.18's plugins (apisix-plugins.md
// §1), for plugins that are not in this build.
func secretsOf(plugin string) secretNames {
	config := func(paths ...string) secretNames { return secretNames{config: paths} }
	held := func(paths ...string) secretNames { return secretNames{held: paths} }
	switch plugin {
	case "key-auth":
		return held("key")
	case "basic-auth":
		return held("password")
	case "jwt-auth":
		return held("secret")
	case "hmac-auth":
		return held("secret_key")
	case "jwe-decrypt":
		return held("key", "secret")
	case "ldap-auth-advanced":
		return config("ldap_password")
	case "csrf":
		return config("key")
	case "openid-connect":
		return config("client_secret", "client_rsa_private_key", "dpop.private_key", "session.secret", "session.redis.password")
	case "saml-auth":
		return config("sp_private_key", "secret", "secret_fallbacks")
	case "cas-auth":
		return config("cookie.secret")
	case "authz-casdoor", "authz-keycloak":
		return config("client_secret")
	case "dingtalk-auth", "feishu-auth":
		return config("app_secret", "secret", "secret_fallbacks")
	case "limit-count", "ai-rate-limiting":
		return config("redis_password", "sentinel_password")
	case "graphql-limit-count":
		return config("redis_password", "sentinel_password", "introspection_headers")
	case "limit-conn", "limit-req":
		return config("redis_password")
	case "kafka-proxy":
		return config("sasl.password")
	}
	return moreSecrets(plugin)
}

func moreSecrets(plugin string) secretNames {
	config := func(paths ...string) secretNames { return secretNames{config: paths} }
	switch plugin {
	case "error-log-logger":
		return secretNames{metadata: []string{"clickhouse.password", "kafka.brokers.sasl_config.password"}}
	case "ai-rag":
		return config("embeddings_provider.azure_openai.api_key", "vector_search_provider.azure_ai_search.api_key")
	case "ai-aws-content-moderation":
		return config("comprehend.secret_access_key")
	case "ai-aliyun-content-moderation", "sls-logger":
		return config("access_key_secret")
	case "lago":
		return config("token")
	case "loki-logger":
		return config("headers")
	case "elasticsearch-logger":
		return config("auth.password", "headers")
	case "loggly":
		return config("customer_token")
	case "http-logger":
		return config("auth_header")
	case "splunk-hec-logging":
		return config("endpoint.token")
	case "google-cloud-logging":
		return config("auth_config.private_key")
	case "kafka-logger":
		return config("brokers.sasl_config.password")
	case "rocketmq-logger", "tencent-cloud-cls":
		return config("secret_key")
	case "clickhouse-logger":
		return config("password")
	case "aws-lambda":
		return config("authorization.apikey", "authorization.iam.accesskey", "authorization.iam.secretkey")
	case "azure-functions":
		return secretNames{config: []string{"authorization.apikey"}, metadata: []string{"master_apikey"}}
	case "openwhisk":
		return config("service_token")
	case "openfunction":
		return config("authorization.service_token")
	}
	return secretNames{}
}
