package plugin_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"weir/internal/plugin"
	"weir/internal/wire"
)

// one is a configuration with a single consumer.
type one string

func (o one) Find(string, string) *plugin.Consumer { return nil }

func (o one) Named(name string) *plugin.Consumer {
	if name != string(o) {
		return nil
	}
	return &plugin.Consumer{Name: name}
}

func TestAuthenticator(t *testing.T) {
	const nobody = `{"message":"Invalid user authorization"}` + "\n"
	for _, c := range []struct {
		anonymous, proved string
		consumer, body    string
	}{
		{"", "jack", "jack", ""},
		{"", "", "", `{"message":"no"}` + "\n"},
		{"anon", "jack", "jack", ""},
		{"anon", "", "anon", ""},
		{"gone", "", "", nobody},
	} {
		a := plugin.NewAuthenticator(plugin.Env{Log: slog.New(slog.DiscardHandler)}, "sample", `Basic realm="r"`, c.anonymous)
		ctx := &plugin.Ctx{Index: one("anon")}
		var who *plugin.Consumer
		if c.proved != "" {
			who = &plugin.Consumer{Name: c.proved}
		}
		reply := a.Admit(ctx, who, a.Refusal("no"))
		name := ""
		if ctx.Consumer != nil {
			name = ctx.Consumer.Name
		}
		if name != c.consumer || (reply == nil) != (c.body == "") {
			t.Errorf("%+v: consumer %q, reply %v", c, name, reply)
		}
		if reply == nil {
			continue
		}
		if string(reply.Body) != c.body || reply.Status != 401 || reply.Header[0] != [2]string{"WWW-Authenticate", `Basic realm="r"`} {
			t.Errorf("%+v: reply %d %v %q", c, reply.Status, reply.Header, reply.Body)
		}
	}
}

func TestConfigError(t *testing.T) {
	s := spec(new(config))
	_, err := s.Compile(json.RawMessage(`{}`), plugin.Env{})
	var refused *plugin.ConfigError
	if !errors.As(err, &refused) || refused.Plugin != "sample" || refused.Err.Error() != `property "size" is required` {
		t.Errorf("got %v", err)
	}
}

func TestCredentialCheck(t *testing.T) {
	s := plugin.Define(
		plugin.Meta{Name: "checked"},
		func(*config, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
		plugin.Credential(func(c *credential) string { return c.Key }, func(c *credential) error {
			if c.Key == "bad" {
				return errors.New("a bad key")
			}
			return nil
		}),
	)
	if key, _, err := s.DecodeCredential([]byte(`{"key":"good"}`)); key != "good" || err != nil {
		t.Errorf("got %q, %v", key, err)
	}
	_, cred, err := s.DecodeCredential([]byte(`{"key":"bad"}`))
	if cred != nil || err == nil || err.Error() != "failed to check the configuration of plugin checked err: a bad key" {
		t.Errorf("got %v, %v", cred, err)
	}
}

func TestClearHeader(t *testing.T) {
	ctx := &plugin.Ctx{Request: new(wire.Request)}
	h := &ctx.Request.Header
	for _, name := range []string{"X-User-ID", "x_user_id", "X-User_Id", "X-User-I", "XaUser-ID"} {
		h.Add(name, "v")
	}
	ctx.ClearHeader("x-USER-id")
	if got := string(h.AppendTo(nil)); got != "X-User-I: v\r\nXaUser-ID: v\r\n" {
		t.Errorf("left %q", got)
	}
	h.Add("X_User_Id", "w")
	ctx.ClearHeader("X_USER_ID")
	if _, there := ctx.Header("x_user_id"); there {
		t.Error("an underscore in the given name is not folded")
	}
}
