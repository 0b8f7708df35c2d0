package threescale

import (
	"encoding/json"
	"net/netip"
	"testing"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/wire"
)

// request is one to a product, as the engine begins it.
func request(t *testing.T) *plugin.Ctx {
	t.Helper()
	c := &plugin.Ctx{
		Request: &wire.Request{Method: "GET", Target: "/A%20b/c?x=1", Host: "API.example:8080"},
		Path:    "/A b/c", Scheme: "http", Client: "10.0.0.9",
		Server: netip.MustParseAddrPort("127.0.0.1:8080"),
	}
	c.Request.Header.Receive("X-Role", "admin")
	c.Request.Header.Receive("Two", "1")
	c.Request.Header.Receive("Two", "2")
	p := &Product{Product: &model.Product{ID: "42", SystemName: "pets", Hosts: []string{"a", "b"}}}
	p.Begin(c)
	r := Of(c)
	r.Credentials.AppID = "app"
	r.Usage.Add("hits", 2)
	r.Token = &Token{Claims: map[string]any{"role": "admin", "n": json.Number("3"), "realm": map[string]any{"roles": []any{"x", "y"}}}}
	r.Set("mine", "text")
	r.Set("table", map[string]any{"a": true})
	t.Cleanup(func() { End(c) })
	return c
}

func TestTextValue(t *testing.T) {
	c := request(t)
	c.DelHeader("X-Role")
	c.SetHeader("X-Role", "user")
	Of(c).SetPath("/new")
	for _, x := range []struct{ source, want string }{
		{"plain", "plain"},
		{"{{ uri }} {{path}}", "/new /new"},
		{"{{ host }}:{{server_port}} {{server_addr}} {{ remote_addr }}", "api.example:8080 127.0.0.1 10.0.0.9"},
		{"{{ http_method }} {{scheme}}", "GET http"},
		{"{{ headers.X-Role }}", "user"},
		{"{{ headers['x_role'] }}{{ headers.none }}", "user"},
		{"{{ headers.two }}", "1, 2"},
		{"{{ original_request.headers['X-Role'] }}", "admin"},
		{"{{ original_request.path }}?{{ original_request.query }}", "/A%20b/c?x=1"},
		{"{{ original_request.uri | upcase }} {{ original_request.host }}", "/A B/C api.example"},
		{"{{ service.id }}", "42"},
		{"{{ service.system_name }} {{ service.hosts | join: '+' }}", "pets a+b"},
		{"{{ usage.deltas.hits }} {{ usage.metrics | first }}", "2 hits"},
		{"{{ credentials.app_id }}{{ credentials.user_key }}", "app"},
		{"{{ jwt.role }} {{ jwt.n }} {{ jwt.realm.roles | last }}", "admin 3 y"},
		{"{% if jwt.role == 'admin' %}yes{% endif %}", "yes"},
		{"{{ mine }} {{ table.a }}", "text true"},
		{"{{ headers | json }}", `{"two":"1, 2","x-role":"user"}`},
		{"{{ usage | json }}", `{"deltas":{"hits":2},"metrics":["hits"]}`},
		{"{{ request_id }}", c.RequestID()},
		{"{{ uri.x }}", ""},
		{"x{{ jwt }}", ""},         // not a text
		{"{{ 'x' | md5", ""},       // wrong
		{"{{ jwt | upcase }}", ""}, // fails
		{"", ""},
	} {
		text, err := NewText(x.source, Liquid)
		if err != nil {
			t.Errorf("%s: %v", x.source, err)
			continue
		}
		if got := text.Value(c); got != x.want {
			t.Errorf("%s: %q, want %q", x.source, got, x.want)
		}
	}
}

func TestText(t *testing.T) {
	c := request(t)
	text, err := NewText("{{ uri }}", Plain)
	if err != nil || text.Value(c) != "{{ uri }}" {
		t.Errorf("plain: %q, %v", text.Value(c), err)
	}
	if s, ok := text.Constant(); !ok || s != "{{ uri }}" {
		t.Error("a plain text is not constant")
	}
	if text, err = NewText("no code", Liquid); err != nil {
		t.Fatal(err)
	}
	if s, ok := text.Constant(); !ok || s != "no code" {
		t.Error("a template without code is not constant")
	}
	if _, err := NewText("x", "lua"); err == nil {
		t.Error("a kind of text that there is not")
	}
	if CheckText("{{ uri", Liquid) == nil || CheckText("{{ uri", Plain) != nil || CheckText("{{ uri }}", Liquid) != nil {
		t.Error("CheckText")
	}
}

func TestTextAllocatesNothing(t *testing.T) {
	c := request(t)
	for _, source := range []string{"plain", "{{ uri }}", "{{ headers.x-role }}", "{{ service.id }}", "{{ jwt.role }}"} {
		text, err := NewText(source, Liquid)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { text.Value(c) }); n != 0 {
			t.Errorf("%s: %v allocations", source, n)
		}
	}
}

func TestCondition(t *testing.T) {
	c := request(t)
	for _, x := range []struct {
		config        string
		holds         bool
		always, never bool
	}{
		{config: `{}`, holds: true, always: true},
		{config: `{"operations":[]}`, holds: true, always: true},
		{config: `{"operations":[],"combine_op":"or"}`, never: true},
		{config: `{"operations":[{"left":"a","op":"==","right":"a"}]}`, holds: true, always: true},
		{config: `{"operations":[{"left":"a","op":"==","right":"b"}]}`, never: true},
		{config: `{"operations":[{"left":"a","op":"!=","right":"b"},{"left":"{{uri}}","left_type":"liquid","op":"==","right":"/A b/c"}]}`, holds: true},
		{config: `{"operations":[{"left":"{{usage.deltas.hits}}","left_type":"liquid","op":"==","right":2}]}`, holds: true},
		{config: `{"operations":[{"left":"{{uri}}","left_type":"liquid","op":"matches","right":"^/a(?i)"}]}`},
		{config: `{"operations":[{"left":"{{uri}}","left_type":"liquid","op":"matches","right":"(?=.*b)/c$"}]}`},
		{config: `{"operations":[{"left":"{{uri}}","left_type":"liquid","op":"matches","right":"(?<=b)/c$"}]}`, holds: true},
		{config: `{"operations":[{"left":"admins","op":"matches","right":"^{{jwt.role}}","right_type":"liquid"}]}`, holds: true},
		{config: `{"operations":[{"left":"a","op":"matches","right":"({{jwt.role}}","right_type":"liquid"}]}`},
		{config: `{"combine_op":"or","operations":[{"left":"a","op":"==","right":"b"},{"left":"{{host}}","left_type":"liquid","op":"matches","right":"example$"}]}`, holds: true},
		{config: `{"combine_op":"and","operations":[{"left":"a","op":"==","right":"b"},{"left":"{{host}}","left_type":"liquid","op":"matches","right":"example$"}]}`, never: true},
		{config: `{"combine_op":"or","operations":[{"left":"{{host}}","left_type":"liquid","op":"==","right":"x"},{"left":"{{host}}","left_type":"liquid","op":"==","right":"y"}]}`},
	} {
		var k Condition
		if err := json.Unmarshal([]byte(x.config), &k); err != nil {
			t.Fatal(err)
		}
		test, err := k.Compile()
		if err != nil {
			t.Errorf("%s: %v", x.config, err)
			continue
		}
		for range 2 {
			if got := test.Holds(c); got != x.holds {
				t.Errorf("%s: holds %v", x.config, got)
			}
		}
		if test.Always() != x.always || test.Never() != x.never {
			t.Errorf("%s: always %v, never %v", x.config, test.Always(), test.Never())
		}
	}
}

func TestConditionRefused(t *testing.T) {
	for _, k := range []Condition{
		{CombineOp: "xor", Operations: []Operation{}},
		{Operations: []Operation{{Op: "<"}}},
		{Operations: []Operation{{Op: "==", LeftType: "lua"}}},
		{Operations: []Operation{{Left: "{{uri}}", LeftType: Liquid, Op: "matches", Right: "("}}},
	} {
		if _, err := k.Compile(); err == nil {
			t.Errorf("%+v: no error", k)
		}
	}
	var none *Condition
	if test, err := none.Compile(); err != nil || !test.Always() {
		t.Error("no condition does not always hold")
	}
}
