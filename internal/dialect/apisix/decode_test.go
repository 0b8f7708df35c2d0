package apisix

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"weir/internal/model"
)

func ptr[T any](v T) *T { return &v }

func TestRoute(t *testing.T) {
	for _, c := range []struct {
		name, doc string
		want      model.Route
	}{
		{"least", `{"uri":"/a"}`, model.Route{ID: "r", Paths: []string{"/a"}}},
		{"numbers as ids, disabled", `{"id":1,"uris":["/a","/b"],"service_id":7,"upstream_id":"u","plugin_config_id":2,"status":0,"enable_websocket":false}`,
			model.Route{ID: "r", Paths: []string{"/a", "/b"}, ServiceID: "7", UpstreamID: "u", PluginConfigID: "2", Disabled: true, Websocket: ptr(false)}},
		{"everything", `{"uri":"/a","name":"n","desc":"d","labels":{"k":"v"},"host":"h","methods":["GET"],"remote_addrs":["10.0.0.1","10.1.2.3/8","::1","fe80::/10"],
			"priority":1e1,"vars":[["uri","==","/a"]],"plugins":{"p":{"x":1}},"timeout":{"connect":1,"send":0.5,"read":3},"status":1,"create_time":1,"update_time":2}`,
			model.Route{ID: "r", Name: "n", Labels: map[string]string{"k": "v"}, Paths: []string{"/a"}, Hosts: []string{"h"}, Methods: []string{"GET"},
				RemoteAddrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fe80::/10")},
				Priority:    10, Vars: []byte(`[["uri","==","/a"]]`), Plugins: model.Plugins{"p": []byte(`{"x":1}`)},
				Timeout: &model.Timeout{Connect: time.Second, Send: time.Second / 2, Read: 3 * time.Second}}},
		{"inner upstream", `{"uri":"/a","upstream":{"nodes":{"a:80":1}}}`,
			model.Route{ID: "r", Paths: []string{"/a"}, Upstream: &model.Upstream{Nodes: []model.Node{{Host: "a", Port: 80, Weight: 1}},
				Type: "roundrobin", HashOn: "vars", Scheme: "http", PassHost: "pass"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Route("r", []byte(c.doc))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*got, c.want) {
				t.Errorf("got  %+v\nwant %+v", *got, c.want)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	route := func(raw string) error { _, err := Route("r", []byte(raw)); return err }
	upstream := func(raw string) error { _, err := Upstream("u", []byte(raw)); return err }
	consumer := func(raw string) error { _, err := Consumer("c", []byte(raw)); return err }
	for _, c := range []struct {
		decode    func(string) error
		doc, want string
	}{
		{route, `init_dir`, `invalid character 'i' looking for beginning of value`},
		{route, `[]`, `wrong type: expected object, got array`},
		{route, `{}`, `property "uri" is required`},
		{route, `{"uri":1}`, `property "uri" validation failed: wrong type: got number`},
		{route, `{"uri":"/","remote_addr":"x"}`, `invalid remote_addr: x`},
		{route, `{"uri":"/","remote_addr":"1.2.3.4/99"}`, `invalid remote_addr: 1.2.3.4/99`},
		{route, `{"uri":"/","priority":1.5}`, `wrong type: expected integer, got number`},
		{upstream, `{"nodes":{"a:80":"1"}}`, `weight of node "a:80": wrong type: expected integer, got string`},
		{consumer, `{"plugins":[1]}`, `property "plugins" validation failed: wrong type: got array`},
		{consumer, `{"plugins":1}`, `property "plugins" validation failed: wrong type: got number`},
		{consumer, ``, `unexpected end of JSON input`},
	} {
		if err := c.decode(c.doc); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.doc, err, c.want)
		}
	}
}

func TestUpstream(t *testing.T) {
	got, err := Upstream("u", []byte(`{"id":"u","name":"n","type":"chash","hash_on":"header","key":"x","scheme":"https","pass_host":"rewrite","upstream_host":"h",
		"nodes":[{"host":"[::1]","port":8080.0,"weight":2,"priority":-1,"metadata":{}},{"host":"a.b","weight":0}],
		"retries":0,"retry_timeout":1.5,"timeout":{"connect":1,"send":2,"read":3},"keepalive_pool":{"size":1,"idle_timeout":0},
		"tls":{"verify":true},"checks":{"active":{}},"discovery_type":"dns","service_name":"s","discovery_args":null}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &model.Upstream{ID: "u", Name: "n", Type: "chash", HashOn: "header", Key: "x", Scheme: "https", PassHost: "rewrite", Host: "h",
		Nodes:   []model.Node{{Host: "::1", Port: 8080, Weight: 2, Priority: -1}, {Host: "a.b"}},
		Retries: ptr(0), RetryTimeout: 1500 * time.Millisecond, Timeout: model.Timeout{Connect: time.Second, Send: 2 * time.Second, Read: 3 * time.Second},
		Keepalive: &model.Keepalive{Size: 1, IdleTimeout: 0, Requests: 1000}, TLS: []byte(`{"verify":true}`), Checks: []byte(`{"active":{}}`),
		DiscoveryType: "dns", ServiceName: "s"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestNodesKeepTheirOrder(t *testing.T) {
	got, err := Upstream("u", []byte(`{"nodes":{"z:1":1,"a":2,"[::1]:3":3,"::1":4,"1.2.3.4:5":0}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []model.Node{{Host: "z", Port: 1, Weight: 1}, {Host: "a", Weight: 2}, {Host: "::1", Port: 3, Weight: 3}, {Host: "::1", Weight: 4}, {Host: "1.2.3.4", Port: 5}}
	if !reflect.DeepEqual(got.Nodes, want) {
		t.Errorf("got %+v, want %+v", got.Nodes, want)
	}
}

func TestSplitAddr(t *testing.T) {
	for in, want := range map[string]string{
		"a": "a 0", "a:80": "a 80", "1.2.3.4": "1.2.3.4 0", "1.2.3.4:80": "1.2.3.4 80", "[::1]": "[::1] 0", "[::1]:80": "[::1] 80",
		"::1:80": "::1:80 0", "": " 0", "a:": "a 0", "a:x": "a 0", "[": "[ 0", "[a:1": "[a:1 0", ":80": " 80", "a:0": "a 0", "a:65536": "a 65536",
	} {
		host, port := SplitAddr(in)
		if got := fmt.Sprintf("%s %d", host, port); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestConsumerAndCredential(t *testing.T) {
	c, err := Consumer("jack", []byte(`{"username":"jack","desc":"d","labels":{"a":"b"},"group_id":12,"plugins":{"key-auth":{"key":"k"}},"create_time":1}`))
	want := &model.Consumer{Username: "jack", Labels: map[string]string{"a": "b"}, GroupID: "12", Plugins: model.Plugins{"key-auth": []byte(`{"key":"k"}`)}}
	if err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := Consumer("jack", []byte(`{"username":"jack","labels":[ ],"plugins":[]}`)); err != nil || len(c.Plugins) != 0 {
		t.Errorf("got %+v, %v", c, err)
	}
	k, err := Credential("jack/credentials/c1", []byte(`{"id":"c1","name":"n","plugins":{"key-auth":{"key":"k"}}}`))
	wantK := &model.Credential{ID: "c1", Consumer: "jack", Name: "n", Plugins: model.Plugins{"key-auth": []byte(`{"key":"k"}`)}}
	if err != nil || !reflect.DeepEqual(k, wantK) {
		t.Errorf("got %+v, %v", k, err)
	}
	if _, err := Credential("c1", []byte(`{}`)); err == nil {
		t.Error("a credential without consumer was decoded")
	}
}

func TestWithoutTimes(t *testing.T) {
	base := WithoutTimes([]byte(`{"id":"1","uri":"/a","plugins":{"p":{"update_time":1}},"create_time":1,"update_time":2}`))
	for _, same := range []string{
		`{"id":"1","uri":"/a","plugins":{"p":{"update_time":1}},"create_time":1,"update_time":3}`,
		`{"update_time":3,"plugins":{"p":{"update_time":1}},"uri":"/a","id":"1"}`,
		` { "id" : "1" , "uri" : "/a" , "plugins" : {"p":{"update_time":1}} } `,
	} {
		if WithoutTimes([]byte(same)) != base {
			t.Errorf("%s has another digest", same)
		}
	}
	for _, other := range []string{
		`{"id":"1","uri":"/b","plugins":{"p":{"update_time":1}}}`,
		`{"id":"1","uri":"/a","plugins":{"p":{"update_time":2}}}`,
		`{"id":"1","uri":"/a"}`, `{"id":"1","uri":"/a","plugins":{"p":{"update_time":1}},"x":{}}`,
		`{"id":"1","uri":"/a","plugins":{"p":{"update_time":1}}`, `{}`, ``, `init_dir`, `[]`, `"`, `{"a"`, `{"a":`, `{"a":1,`, `{"a\`,
	} {
		if WithoutTimes([]byte(other)) == base {
			t.Errorf("%s has the same digest", other)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"uri":"/a","remote_addr":"::1","priority":1e3,"upstream":{"nodes":{"[::1]:80":1}}}`))
	f.Add([]byte(`{"nodes":[{"host":"a","weight":1}],"retries":null,"keepalive_pool":{}}`))
	f.Add([]byte(`{"uris":["/a","/b"],"Plugins":{"key-auth":{}},"plugins":{"a":{}},"PLUGINS":null}`))
	f.Add([]byte(`{"sni":"a","snis":[],"cert":"c","key":"k","certs":["c"],"keys":["k"],"client":{"ca":"x","depth":"1"},"server_addr":"1","remote_addr":"::/0"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, err := range []error{
			second(Route("r", raw)), second(Service("s", raw)), second(Upstream("u", raw)), second(Consumer("c", raw)), second(PluginSet("p", raw)),
			second(Credential("k", raw)), second(SSL("l", raw)), second(StreamRoute("t", raw)), second(InlineUpstream(raw)),
		} {
			if err != nil && err.Error() == "" {
				t.Error("an error without text")
			}
		}
		WithoutTimes(raw)
		outline, names := RouteOutline("r", raw), map[string]bool{}
		list, ok := NamedPlugins(raw)
		for _, name := range list {
			names[name] = true
		}
		r, err := Route("r", raw)
		if err != nil {
			return
		}
		// A path that is empty is nowhere.
		paths := slices.DeleteFunc(slices.Clone(r.Paths), func(p string) bool { return p == "" })
		if outline == nil && len(paths) > 0 || outline != nil && !slices.Equal(outline.Paths, paths) {
			t.Errorf("%s is a route, and outlined %+v", raw, outline)
		}
		for name := range r.Plugins {
			if ok && !names[name] {
				t.Errorf("%s has %s, which is not named", raw, name)
			}
		}
	})
}

// FuzzConsumerDoc: a document that is read in one pass says what the library's decoder
// reads.
func FuzzConsumerDoc(f *testing.F) {
	for _, seed := range []string{
		`{"username":"jack","plugins":{"key-auth":{"key":"k"},"limit-count":{"count":1}},"create_time":1700000000,"update_time":1}`,
		`{"username":"jack","labels":{"a":"b"},"group_id":"g","desc":"d","plugins":{}}`, `{"name":"c1","id":"c1","plugins":null}`,
		`{"group_id":7,"labels":{"a":1}}`, `{"Username":"x","plugins":[]}`, `{"username":"a","username":"b"}`, `{"plugins":{"a":1},"plugins":{"b":2}}`,
		`{"username":null,"labels":null}`, `{"plugins":{"key-auth":null}}`, `{"name":"\u0061"}`, ` { "labels" : { } } `, `[]`, `{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got, want consumerDoc
		if !got.plain(raw) {
			return
		}
		if err := unmarshal(raw, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v, %v", raw, got, want, err)
		}
	})
}

// TestPlainConsumers: what this gateway and APISIX store is read in one pass.
func TestPlainConsumers(t *testing.T) {
	for _, raw := range []string{
		`{"username":"jack","plugins":{"key-auth":{"key":"k"}},"create_time":1700000000,"update_time":1700000000}`,
		`{"update_time":1700000000,"labels":{"team":"a"},"group_id":"g","desc":"of jack","username":"jack","create_time":1700000000}`,
		`{"id":"c1","name":"c1","plugins":{"key-auth":{"key":"k"}}}`,
	} {
		if !new(consumerDoc).plain([]byte(raw)) {
			t.Errorf("%s is not read in one pass", raw)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func BenchmarkConsumer(b *testing.B) {
	raw := []byte(`{"username":"consumer12345","plugins":{"key-auth":{"key":"VzvuEGJPOnbNDGwxjVbMFxJHGJ5XsBpMcgJcSPK3Yvs="}},"create_time":1700000000,"update_time":1700000000,"labels":{"team":"a"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Consumer("consumer12345", raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRoute(b *testing.B) {
	raw := []byte(`{"id":"r1","uri":"/api/v1/orders/*","name":"orders","host":"example.com","methods":["GET","POST"],"plugins":{"limit-count":{"count":2,"time_window":60},"key-auth":{}},"upstream":{"type":"roundrobin","nodes":{"10.0.0.1:80":1,"10.0.0.2:80":1}},"create_time":1700000000,"update_time":1700000000}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Route("r1", raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWithoutTimes(b *testing.B) {
	raw := []byte(`{"username":"consumer12345","plugins":{"key-auth":{"key":"VzvuEGJPOnbNDGwxjVbMFxJHGJ5XsBpMcgJcSPK3Yvs="}},"create_time":1700000000,"update_time":1700000000,"labels":{"team":"a"}}`)
	b.ReportAllocs()
	for b.Loop() {
		WithoutTimes(raw)
	}
}

// TestEndlessTimeout: a time-out that is beyond all numbers of nanoseconds is long,
// not over before it begins.
func TestEndlessTimeout(t *testing.T) {
	u, err := Upstream("1", []byte(`{"nodes":{"127.0.0.1:80":1},"timeout":{"connect":1e300,"send":9999999999,"read":60},"retry_timeout":1e12}`))
	if err != nil {
		t.Fatal(err)
	}
	const year = 365 * 24 * time.Hour
	if u.Timeout.Connect < year || u.Timeout.Send < year || u.Timeout.Read != time.Minute || u.RetryTimeout < year {
		t.Errorf("%+v, %v", u.Timeout, u.RetryTimeout)
	}
}
