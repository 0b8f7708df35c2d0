package acl

import (
	"encoding/json"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

const forbidden = `{"message":"The consumer is forbidden."}` + "\n"

func compiled(t *testing.T, conf string) plugin.Phases {
	t.Helper()
	ph, err := Plugin.Compile([]byte(conf), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	return ph
}

// send returns the body of a refusal, or nothing.
func send(t *testing.T, conf string, set func(*plugin.Ctx)) string {
	t.Helper()
	ctx := plugintest.NewCtx("/")
	set(ctx)
	reply := plugintest.Send(compiled(t, conf), ctx)
	if reply == nil {
		return ""
	}
	return string(reply.Body)
}

func TestConsumer(t *testing.T) {
	type labels = map[string]string
	for _, c := range []struct {
		conf string
		held labels
		want string
	}{
		{`{"allow_labels":{"org":["apache"]}}`, labels{"org": "apache"}, ""},
		{`{"allow_labels":{"org":["apache"]}}`, labels{"org": "other"}, forbidden},
		{`{"allow_labels":{"org":["apache"]}}`, labels{"Org": "apache"}, forbidden},
		{`{"allow_labels":{"org":["apache"]}}`, nil, forbidden},
		{`{"allow_labels":{"org":["apache","other"],"team":["x"]}}`, labels{"org": "none", "team": "x"}, ""},
		{`{"allow_labels":{"project":["apisix"]}}`, labels{"project": "gateway, apisix ,web"}, ""},
		{`{"allow_labels":{"project":["api"]}}`, labels{"project": "gateway,apisix"}, forbidden},
		{`{"allow_labels":{"project":["gateway,apisix"]}}`, labels{"project": "gateway,apisix"}, forbidden},
		{`{"allow_labels":{"project":["http,server"]}}`, labels{"project": `["web","http,server"]`}, ""},
		{`{"allow_labels":{"project":["web"]}}`, labels{"project": `["web"`}, forbidden},
		{`{"allow_labels":{"project":["1"]}}`, labels{"project": `[1,null,["1"]]`}, forbidden},
		{`{"deny_labels":{"org":["apache"]}}`, labels{"org": "apache"}, forbidden},
		{`{"deny_labels":{"org":["apache"]}}`, labels{"org": "other"}, ""},
		{`{"deny_labels":{"org":["apache"]}}`, nil, ""},
		{`{"deny_labels":{"org":["apache"]},"allow_labels":{"org":["apache"]}}`, labels{"org": "apache"}, forbidden},
		{`{"deny_labels":{"org":["x"]},"allow_labels":{"org":["apache"]}}`, labels{"org": "apache"}, ""},
		{`{"deny_labels":{"org":["x"]},"allow_labels":{"org":["apache"]}}`, labels{"org": "y"}, forbidden},
		{`{"deny_labels":{"org":["x"]},"rejected_msg":"no"}`, labels{"org": "x"}, `{"message":"no"}` + "\n"},
		{`{"deny_labels":{"org":["a,b"]},"external_user_label_field_parser":"segmented_text","external_user_label_field_separator":";"}`, labels{"org": "a,b"}, ""},
	} {
		got := send(t, c.conf, func(r *plugin.Ctx) {
			r.Consumer = &plugin.Consumer{Name: "jack", Labels: c.held}
			r.Claims = json.RawMessage(`{"groups":"apache","org":"apache"}`) // a consumer's labels count, not these
		})
		if got != c.want {
			t.Errorf("%s, %v: got %q, want %q", c.conf, c.held, got, c.want)
		}
	}
}

func TestExternalUser(t *testing.T) {
	conf := func(field, parser, separator string) string {
		b, err := json.Marshal(map[string]any{
			"external_user_label_field": field, "external_user_label_field_key": "team",
			"external_user_label_field_parser": parser, "external_user_label_field_separator": separator,
			"allow_labels": map[string][]string{"team": {"cloud", "infra"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	plain := func(field string) string {
		return `{"external_user_label_field":"` + field + `","external_user_label_field_key":"team","allow_labels":{"team":["cloud","infra"]}}`
	}
	const one, two = `{"orgs":{"api7":{"team":`, `},"apache":{"team":["devops","qa"]}}}`
	for _, c := range []struct {
		conf, claims string
		passes       bool
	}{
		{plain("team"), `{"team":"infra"}`, true},
		{plain("team"), `{"team":["fake","infra"]}`, true},
		{plain("team"), `{"team":"fake,infra"}`, true},
		{plain("team"), `{"team":"[\"infra\"]"}`, true},
		{plain("team"), `{"team":"fake"}`, false},
		{plain("team"), `{"team":1}`, false},
		{plain("team"), `{"team":null}`, false},
		{plain("team"), `{"team":{"a":"infra"}}`, false},
		{plain("team"), `{}`, false},
		{plain("$.orgs..team"), one + `"infra"}}}`, true},
		{plain("$.orgs..team"), one + `"infra"` + two, true},
		{`{"allow_labels":{"groups":["infra"]}}`, `{"groups":["infra"]}`, true},
		{`{"allow_labels":{"team":["infra"]}}`, `{"groups":["infra"],"team":"infra"}`, false},
		{`{"external_user_label_field":"$..team","allow_labels":{"team":["infra"]}}`, `{"team":"infra"}`, false},
		{`{"external_user_label_field":"$..team","allow_labels":{"$..team":["infra"]}}`, `{"team":"infra"}`, true},
		{`{"deny_labels":{"groups":["infra"]}}`, `{"groups":"a,infra"}`, false},
		{`{"deny_labels":{"groups":["infra"]}}`, `{}`, true},
		{conf("$.orgs..team", "table", "x"), one + `["cloud"]}}}`, true},
		{conf("$.orgs..team", "table", "x"), one + `"cloud"}}}`, false},
		{conf("$.orgs..team", "json", "x"), one + `"[\"cloud\"]"}}}`, true},
		{conf("$.orgs..team", "json", "x"), one + `["cloud"]}}}`, false},
		{conf("$.orgs..team", "json", "x"), one + `"cloud"}}}`, false},
		{conf("$.orgs..team", "segmented_text", `\|`), one + `"x | cloud"}}}`, true},
		{conf("$.orgs..team", "segmented_text", `\|`), one + `"x,cloud"}}}`, false},
		{conf("$.orgs..team", "segmented_text", `\|`), one + `["cloud"]}}}`, false},
		{conf("$.orgs..team", "segmented_text", `\|`), one + `"cloud|x"` + two, true},
		{conf("$.orgs..team", "segmented_text", `|`), one + `"cloud|infra"}}}`, false},
		{conf("$.orgs..team", "segmented_text", `[;/]+`), one + `"x;/infra"}}}`, true},
	} {
		got := send(t, c.conf, func(r *plugin.Ctx) { r.Claims = json.RawMessage(c.claims) })
		if (got == "") != c.passes {
			t.Errorf("%s, %s: got %q", c.conf, c.claims, got)
		}
	}
}

func TestNobody(t *testing.T) {
	for _, conf := range []string{`{"deny_labels":{"a":["b"]}}`, `{"allow_labels":{"a":["b"]}}`} {
		if got := send(t, conf, func(*plugin.Ctx) {}); got != `{"message":"Missing authentication."}`+"\n" {
			t.Errorf("%s: %q", conf, got)
		}
	}
}

func TestInvalid(t *testing.T) {
	with := func(more string) string { return `{"allow_labels":{"a":["b"]},` + more + `}` }
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "no labels", Config: `{}`, Invalid: "object matches none of the required"},
		{Name: "empty", Config: `{"allow_labels":{}}`, Invalid: `property "allow_labels" validation failed: expect object to have at least 1 properties`},
		{Name: "no values", Config: `{"deny_labels":{"a":[]}}`, Invalid: `property "deny_labels" validation failed: failed to validate a (matching ".*"): expect array to have at least 1 items`},
		{Name: "parser", Config: with(`"external_user_label_field_parser":"xml"`), Invalid: `property "external_user_label_field_parser" validation failed: matches none of the enum values`},
		{Name: "separator missing", Config: with(`"external_user_label_field_parser":"segmented_text"`), Invalid: "allOf 1 failed: then clause did not match"},
		{Name: "separator empty", Config: with(`"external_user_label_field_separator":""`), Invalid: `property "external_user_label_field_separator" validation failed: string too short, expected at least 1, got 0`},
		{Name: "separator", Config: with(`"external_user_label_field_parser":"segmented_text","external_user_label_field_separator":"(a"`), Invalid: "invalid external_user_label_field_separator: "},
		{Name: "path", Config: with(`"external_user_label_field":"$.a["`), Invalid: "invalid external_user_label_field: "},
		{Name: "key", Config: with(`"external_user_label_field_key":""`), Invalid: `property "external_user_label_field_key" validation failed: string too short, expected at least 1, got 0`},
	})
}

// Reading a consumer's labels allocates only for a JSON array.
func TestNoAllocation(t *testing.T) {
	ph := compiled(t, `{"deny_labels":{"project":["x"]},"allow_labels":{"project":["apisix"]}}`)
	for project, want := range map[string]bool{"apisix": true, "gateway, apisix": true, "other": false} {
		ctx := plugintest.NewCtx("/")
		ctx.Consumer = &plugin.Consumer{Name: "jack", Labels: map[string]string{"project": project}}
		run := func() {
			if (plugintest.Send(ph, ctx) == nil) != want {
				t.Fatal(project)
			}
		}
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s: %v allocations", project, n)
		}
	}
}
