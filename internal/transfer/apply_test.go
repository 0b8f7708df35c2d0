package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/document"
	"weir/internal/model"
)

// A fake target keeps a log and refuses what refuse says.
type fake struct {
	mu     sync.Mutex
	log    []string
	refuse func(call string, before []string) error
}

func (f *fake) call(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		if err := f.refuse(what, f.log); err != nil {
			return err
		}
	}
	f.log = append(f.log, what)
	return nil
}

func (f *fake) Put(_ context.Context, key model.Key, _ *document.Value) error {
	return f.call("+" + key.String())
}
func (f *fake) Delete(_ context.Context, key model.Key) error { return f.call("-" + key.String()) }

const everything = `
routes: [{id: 1, uri: /a}]
services: [{id: 1}, {id: 1/graphql_cost_decorations/d}]
upstreams: [{id: 1}]
consumers: [{username: a}, {id: a/credentials/c}]
consumer_groups: [{id: 1}]
plugin_configs: [{id: 1}]
global_rules: [{id: 1}]
plugin_metadata: [{id: syslog}]
ssls: [{id: 1}]
stream_routes: [{id: 1, protocol: {superior_id: 2}}, {id: 2}]
protos: [{id: 1}]
secrets: [{id: vault/1}]`

func TestApplyOrder(t *testing.T) {
	order := strings.Fields(`secrets/vault/1 plugin_metadata/syslog protos/1 ssls/1 upstreams/1 services/1
		services/1/graphql_cost_decorations/d plugin_configs/1 consumer_groups/1 consumers/a consumers/a/credentials/c
		global_rules/1 routes/1 stream_routes/2 stream_routes/1`)
	for _, mark := range []string{"+", "-"} {
		from, to := state(t, `routes: []`), state(t, everything)
		want := slices.Clone(order)
		if mark == "-" {
			from, to = to, from
			slices.Reverse(want)
		}
		f := &fake{}
		last := 0
		r, err := Apply(t.Context(), f, schemas(t).Compare(from, to), func(n int) { last = n })
		if err != nil || len(r.Done) != len(order) || len(r.Failed)+len(r.Left) != 0 || last != len(order) {
			t.Fatal(r, err, last)
		}
		if got := strings.Join(f.log, " "); got != mark+strings.Join(want, " "+mark) {
			t.Errorf("got %s", got)
		}
	}
}

func TestApplyRefusals(t *testing.T) {
	no := func(what string) error { return &Refusal{400, what} }
	for _, c := range []struct {
		name, from, to         string
		refuse                 func(string, []string) error
		done, failed, left, is string
	}{
		{
			name: "a refusal keeps others going and nothing is deleted",
			from: `upstreams: [{id: old}]`, to: "upstreams: [{id: bad}, {id: good}]\nroutes: [{id: 1, uri: /}]",
			refuse: func(call string, _ []string) error {
				if call == "+upstreams/bad" {
					return no("invalid configuration: x")
				}
				return nil
			},
			done: "+routes/1 | +upstreams/good", failed: "upstreams/bad: invalid configuration: x", left: "-upstreams/old",
		},
		{
			name: "a key moves to another consumer",
			from: "consumers: [{username: jack}]\nupstreams: [{id: old}]", to: "consumers: [{username: ann}]",
			refuse: func(call string, before []string) error {
				if call == "+consumers/ann" && !slices.Contains(before, "-consumers/jack") {
					return no("duplicate key of plugin key-auth found with consumer: jack")
				}
				return nil
			},
			done: "-upstreams/old | +consumers/ann | -consumers/jack",
		},
		{
			name: "keys move along a chain",
			from: `routes: []`, to: `consumers: [{username: a}, {username: b}, {username: c}]`,
			refuse: func(call string, before []string) error {
				next := map[string]string{"+consumers/a": "+consumers/b", "+consumers/b": "+consumers/c"}[call]
				if next != "" && !slices.Contains(before, next) {
					return no("duplicate key of plugin key-auth found with consumer: x")
				}
				return nil
			},
			done: "+consumers/a | +consumers/b | +consumers/c",
		},
		{
			name: "two swap their keys, which cannot be done in steps",
			from: `routes: [{id: old, uri: /}]`, to: `consumers: [{username: a}]`,
			refuse: func(call string, _ []string) error {
				if call == "+consumers/a" {
					return no("duplicate key of plugin key-auth found with consumer: b")
				}
				return nil
			},
			failed: "consumers/a: duplicate key of plugin key-auth found with consumer: b", left: "-routes/old",
		},
		{
			name: "the target is gone",
			from: `routes: [{id: old, uri: /}]`, to: "upstreams: [{id: 1}]\nroutes: [{id: new, uri: /}]",
			refuse: func(call string, _ []string) error {
				if call == "+routes/new" {
					return &Unreachable{"there", errors.New("gone")}
				}
				return nil
			},
			done: "+upstreams/1", left: "+routes/new | -routes/old", is: "there cannot be reached: gone",
		},
		{
			name: "the store is full",
			from: `routes: []`, to: `upstreams: [{id: 1}]`,
			refuse: func(string, []string) error { return &Refusal{503, "the store is full"} },
			left:   "+upstreams/1", is: "the store is full",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Apply(t.Context(), &fake{refuse: c.refuse}, schemas(t).Compare(state(t, c.from), state(t, c.to)), nil)
			is := ""
			if err != nil {
				is = err.Error()
			}
			var failed []string
			for _, f := range r.Failed {
				failed = append(failed, fmt.Sprintf("%s: %v", f.Key, f.Err))
			}
			if got := shown(r.Done); got != c.done {
				t.Errorf("done: got %s, want %s", got, c.done)
			}
			if got := strings.Join(failed, " | "); got != c.failed {
				t.Errorf("failed: got %s, want %s", got, c.failed)
			}
			if got := shown(r.Left); got != c.left || is != c.is {
				t.Errorf("left: got %s, want %s; error %s, want %s", got, c.left, is, c.is)
			}
		})
	}
}

func TestApplyCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{refuse: func(string, []string) error { cancel(); return nil }}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("{id: %d}", i))
	}
	r, err := Apply(ctx, f, schemas(t).Compare(newState(), state(t, "upstreams: ["+strings.Join(many, ",")+"]")), nil)
	if !errors.Is(err, context.Canceled) || len(r.Done)+len(r.Left) != 100 || len(r.Left) < 80 {
		t.Errorf("%d done, %d left, %v", len(r.Done), len(r.Left), err)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"good", `upstreams: [{id: u, nodes: {"a:1": 1}}]`, "upstreams: [{id: u, nodes: {\"a:1\": 1}}]\nroutes: [{id: 1, uri: /, upstream_id: u}]", ""},
		{"invalid", `routes: []`, `routes: [{id: 1, uri: /}]`, "routes/1: invalid configuration: object matches none of the required"},
		{"secret manager", `routes: []`, `secrets: [{id: abc/1}]`, "secrets/abc/1: invalid secret manager: abc"},
		{"dangling", `routes: []`, `routes: [{id: 1, uri: /, upstream_id: u}]`, "routes/1: it refers to upstreams/u, which is not there"},
		{"without a parent", `routes: []`, `consumers: [{id: a/credentials/c}]`, "consumers/a/credentials/c: it refers to consumers/a, which is not there"},
		{
			"still in use", "upstreams: [{id: u, nodes: {\"a:1\": 1}}]\nroutes: [{id: 1, uri: /, upstream_id: u}]", `routes: [{id: 1, uri: /, upstream_id: u}]`,
			"upstreams/u: routes/1 still refers to it",
		},
		{"does not compile", `routes: []`, `routes: [{id: 1, uri: /bad, upstream: {nodes: {"a:1": 1}}}]`, "routes/1: refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, to := state(t, c.from), state(t, c.to)
			var got []string
			for _, f := range schemas(t).Check(from, schemas(t).Compare(from, to), func(o model.Object) error {
				if strings.Contains(string(o.Raw), "/bad") {
					return errors.New("refused")
				}
				return nil
			}) {
				got = append(got, fmt.Sprintf("%s: %v", f.Key, f.Err))
			}
			if text := strings.Join(got, " | "); !strings.HasPrefix(text, c.want) || c.want == "" && text != "" {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}
