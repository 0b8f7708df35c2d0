package plugin_test

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/internal/plugin"
)

type config struct {
	_    struct{} `schema:"closed"`
	Size int      `json:"size" schema:"required,min=1"`
	Name string   `json:"name" schema:"default=x"`
}

type credential struct {
	Key string `json:"key" schema:"required,secret"`
}

func spec(seen *config) plugin.Spec {
	return plugin.Define(
		plugin.Meta{Name: "sample", Priority: 1, Type: "auth"},
		func(c *config, _ plugin.Env) (plugin.Phases, error) {
			*seen = *c
			return plugin.Phases{}, nil
		},
		plugin.Credential(func(c *credential) string { return c.Key }),
	)
}

func TestCompile(t *testing.T) {
	const prefix = "failed to check the configuration of plugin sample err: "
	var seen config
	s := spec(&seen)
	if !s.Guard || s.Version != 0.1 {
		t.Errorf("Guard %v, Version %v", s.Guard, s.Version)
	}
	for _, c := range []struct{ conf, want string }{
		{`{"size":2}`, ""},
		{`{"size":2,"_meta":{"disable":true,"priority":1,"filter":[],"error_response":{"a":1},"pre_function":"return"}}`, ""},
		{`{"size":0}`, prefix + `property "size" validation failed: expected 0 to be at least 1`},
		{`{}`, prefix + `property "size" is required`},
		{`{"size":2,"other":1}`, prefix + "additional properties forbidden, found other"},
		{`{"size":2,"_meta":{"disable":1}}`, prefix + `property "_meta" validation failed: property "disable" validation failed: wrong type: expected boolean, got number`},
		{`{"size":2,"_meta":{"error_response":true}}`, prefix + `property "_meta" validation failed: property "error_response" validation failed: value should match only one schema, but matches none`},
		{`{"size":2,"_meta":{"x":1}}`, prefix + `property "_meta" validation failed: additional properties forbidden, found x`},
	} {
		_, err := s.Compile(json.RawMessage(c.conf), plugin.Env{})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.conf, got, c.want)
		}
	}
	if seen != (config{Size: 2, Name: "x"}) {
		t.Errorf("compiled %+v", seen)
	}
}

func TestDecodeCredential(t *testing.T) {
	s := spec(new(config))
	key, cred, err := s.DecodeCredential([]byte(`{"key":"k"}`))
	if c, ok := cred.(*credential); err != nil || key != "k" || !ok || c.Key != "k" {
		t.Errorf("got %q, %v, %v", key, cred, err)
	}
	_, _, err = s.DecodeCredential([]byte(`{"key":1}`))
	const want = `failed to check the configuration of plugin sample err: property "key" validation failed: wrong type: expected string, got number`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	none := plugin.Define(plugin.Meta{Name: "none"}, func(*config, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil })
	if _, _, err := none.DecodeCredential([]byte(`{}`)); err == nil || none.CredentialSchema() != nil {
		t.Error("a plugin without credentials decoded one")
	}
}

func TestSchemaDocuments(t *testing.T) {
	s := spec(new(config))
	doc, err := json.Marshal(s.ConfigSchema())
	if err != nil {
		t.Fatal(err)
	}
	const start = `{"type":"object","properties":{"size":{"type":"integer","minimum":1},"name":{"type":"string","default":"x"},"_meta":{"type":"object",`
	const end = `"required":["size"],"additionalProperties":false,"$comment":"this is a mark for our injected plugin schema"}`
	if !strings.HasPrefix(string(doc), start) || !strings.HasSuffix(string(doc), end) {
		t.Errorf("configuration: %s", doc)
	}
	doc, err = json.Marshal(s.CredentialSchema())
	const want = `{"type":"object","properties":{"key":{"type":"string"}},"required":["key"],"encrypt_fields":["key"]}`
	if err != nil || string(doc) != want {
		t.Errorf("credential: %s, %v", doc, err)
	}
}

func TestJSON(t *testing.T) {
	if r := plugin.JSON(403, map[string]string{"message": "<a> & b"}); string(r.Body) != `{"message":"<a> & b"}`+"\n" {
		t.Errorf("%q", r.Body)
	}
}
