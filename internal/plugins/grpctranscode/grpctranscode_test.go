package grpctranscode

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"weir/internal/document"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/protofile"
	"weir/internal/wire"
)

const shop = `syntax = "proto3";
package shop;
service Shop {
	rpc Order (Request) returns (Reply) {}
}
enum Size { SIZE_UNKNOWN = 0; SMALL = 1; LARGE = 2; }
message Item { string name = 1; int32 pieces = 2; }
message Request {
	string name = 1;
	int32 a = 2;
	int64 b = 3;
	uint64 c = 4;
	double d = 5;
	bool yes = 6;
	Size size = 7;
	repeated string tags = 8;
	Item item = 9;
	repeated Item items = 10;
	map<string, int32> counts = 11;
	map<string, Item> named = 12;
	bytes raw = 13;
	optional string may = 14;
	oneof one { string left = 15; int32 right = 16; }
	float f = 17;
}
message Reply { string message = 1; Request was = 2; repeated Size sizes = 3; int64 n = 4; }
message Detail { string why = 1; }
`

func message(t testing.TB, name string) protoreflect.MessageDescriptor {
	t.Helper()
	files, err := protofile.Compile(shop)
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		t.Fatal(err)
	}
	return d.(protoreflect.MessageDescriptor)
}

// TestRoundTrip: what JSON becomes as a message, and as JSON again with the
// fields that have a value.
func TestRoundTrip(t *testing.T) {
	d := message(t, "shop.Request")
	for given, want := range map[string]string{
		`{}`:                                    `{}`,
		`{"name":"é\"/","other":1,"item":null}`: `{"name":"é\"/"}`,
		`{"a":-3,"b":5,"c":7}`:                  `{"a":-3,"b":5,"c":7}`,
		`{"a":"-3","b":"5","c":"0x1F"}`:         `{"a":-3,"b":5,"c":31}`,
		`{"b":"#-12","c":"#0xff"}`:              `{"b":-12,"c":255}`,
		`{"b":"-#0x10","a":1.9}`:                `{"a":1,"b":-16}`,
		`{"a":"many","name":"x"}`:               `{"name":"x"}`,
		`{"d":1.25,"f":0.1}`:                    `{"d":1.25,"f":0.10000000149012}`,
		`{"d":"1e3"}`:                           `{"d":1000}`,
		`{"yes":true}`:                          `{"yes":true}`,
		`{"yes":0}`:                             `{"yes":true}`,
		`{"size":2}`:                            `{"size":"LARGE"}`,
		`{"size":"SMALL"}`:                      `{"size":"SMALL"}`,
		`{"size":7}`:                            `{"size":7}`,
		`{"tags":["a","b"],"items":[{},{"pieces":2}]}`:        `{"tags":["a","b"],"items":[{},{"pieces":2}]}`,
		`{"counts":{"z":1,"a":2},"named":{"k":{"name":"n"}}}`: `{"counts":{"a":2,"z":1},"named":{"k":{"name":"n"}}}`,
		`{"raw":"\u0001x","may":"","left":""}`:                `{"raw":"\u0001x","may":"","left":""}`,
	} {
		v, err := document.Parse([]byte(given))
		if err != nil {
			t.Fatal(err)
		}
		sent, err := encode(d, v)
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		if n := len(sent) - frame; !bytes.Equal(sent[:frame], []byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) {
			t.Errorf("%s: framed with %x", given, sent[:frame])
		}
		got, err := decode(d, sent[frame:], form{absent: noDefaults})
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", given, got, err, want)
		}
	}
}

func TestNoMessage(t *testing.T) {
	d := message(t, "shop.Request")
	for _, given := range []string{
		`[]`, `{"name":1}`, `{"name":["a"]}`, `{"b":"x"}`, `{"b":true}`, `{"c":[]}`, `{"d":"x"}`, `{"size":"HUGE"}`, `{"size":true}`,
		`{"tags":"a"}`, `{"tags":[1]}`, `{"item":"a"}`, `{"items":[1]}`, `{"counts":[]}`, `{"counts":{"a":"x"}}`, `{"named":{"a":1}}`, `{"raw":1}`,
		`{"b":1e30}`,
	} {
		v, err := document.Parse([]byte(given))
		if err != nil {
			t.Fatal(err)
		}
		if sent, err := encode(d, v); err == nil {
			t.Errorf("%s: %x", given, sent)
		}
	}
}

func TestForms(t *testing.T) {
	d := message(t, "shop.Reply")
	m := dynamicpb.NewMessage(d)
	fields := d.Fields()
	m.Set(fields.ByName("n"), protoreflect.ValueOfInt64(2251799813685261))
	m.Mutable(fields.ByName("sizes")).List().Append(protoreflect.ValueOfEnum(2))
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for want, opts := range map[string]options{
		`{"message":"","sizes":["LARGE"],"n":2.2517998136853e+15}`: nil,
		`{"sizes":["LARGE"],"n":2.2517998136853e+15}`:              {"no_default_values"},
		`{"message":"","sizes":[2],"n":"#2251799813685261"}`:       {"enum_as_value", "int64_as_string", "use_default_values"},
		`{"message":"","sizes":["LARGE"],"n":"#0x800000000000D"}`:  {"int64_as_hexstring", "enable_hooks"},
	} {
		if got, err := decode(d, raw, opts.form()); err != nil || string(got) != want {
			t.Errorf("%v: %s, %v; want %s", opts, got, err, want)
		}
	}
	empty, err := decode(d, nil, form{})
	if err != nil || string(empty) != `{"message":"","sizes":[],"n":0}` {
		t.Errorf("%s, %v", empty, err)
	}
	if _, err := decode(d, []byte{0xff}, form{}); err == nil {
		t.Error("no message was decoded")
	}
}

// TestIntegers: the bounds between which integers are numbers in any form.
func TestIntegers(t *testing.T) {
	for _, c := range []struct {
		n    int64
		want string
	}{{4294967295, "4294967295"}, {4294967296, `"#4294967296"`}, {-2147483648, "-2147483648"}, {-2147483649, `"#-2147483649"`}} {
		w := writer{form: form{large: asText}}
		w.integer(uint64(max(c.n, -c.n)), c.n < 0)
		if string(w.dst) != c.want {
			t.Errorf("%d: %s", c.n, w.dst)
		}
	}
}

// A gateway compiles configurations beside one proto object.
type gateway struct {
	plugin.Env
	said bytes.Buffer
}

func newGateway(t *testing.T, content string) *gateway {
	g := &gateway{Env: plugintest.Env(time.Now)}
	keeper := new(plugin.Keeper)
	g.Keep, g.Log = keeper.Uses(), slog.New(slog.NewTextHandler(&g.said, nil))
	g.Proto = func(id string) (string, bool) { return content, id == "1" }
	t.Cleanup(func() { g.Keep.Release(); keeper.Close() })
	return g
}

func (g *gateway) compile(t *testing.T, more string) plugin.Phases {
	t.Helper()
	p, err := Plugin.Compile([]byte(`{"proto_id":1,"service":"shop.Shop","method":"Order"`+more+`}`), g.Env)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A body is what a client sends.
type body string

func (b body) Body(limit int64) ([]byte, error) {
	if int64(len(b)) > limit {
		return nil, plugin.ErrBodyTooLarge
	}
	return []byte(b), nil
}

func TestRequest(t *testing.T) {
	p := newGateway(t, shop).compile(t, `,"deadline":500`)
	for _, c := range []struct{ method, target, media, body, want string }{
		{"GET", "/x?name=a%20b&tags=1&tags=2&a=3&yes", "", "", `{"name":"a b","a":3,"yes":true,"tags":["1","2"]}`},
		{"POST", "/x?name=q", "", "name=b&a=x", `{"name":"b"}`},
		{"POST", "/x", "application/json; charset=utf-8", `{"name":"j","item":{"name":"i"}}`, `{"name":"j","item":{"name":"i"}}`},
		{"PUT", "/x", "application/json", `{"name":"j"}`, `{"name":"j"}`},
		{"PUT", "/x?name=q", "application/json", `no`, `{"name":"q"}`},
		{"DELETE", "/x?name=q", "application/json", `{"name":"j"}`, `{"name":"q"}`},
	} {
		r := plugintest.NewCtx(c.target)
		r.Request.Method, r.Buffer = c.method, body(c.body)
		if c.media != "" {
			r.Request.Header.Add("Content-Type", c.media)
		}
		if reply := p.Access(r); reply != nil {
			t.Errorf("%v: answered %d", c, reply.Status)
			continue
		}
		got, err := decode(message(t, "shop.Request"), r.To.Body[frame:], form{absent: noDefaults})
		if err != nil || string(got) != c.want || r.To.Method != "POST" || r.To.Target != "/shop.Shop/Order" {
			t.Errorf("%v: %s %s %s, %v", c, r.To.Method, r.To.Target, got, err)
		}
		media, _ := r.Header("Content-Type")
		timeout, _ := r.Header("grpc-timeout")
		if media != "application/grpc" || timeout != "500m" {
			t.Errorf("%v: %s, %s", c, media, timeout)
		}
	}
	r := plugintest.NewCtx("/x?tags=one")
	if reply := p.Access(r); reply == nil || reply.Status != 400 {
		t.Errorf("no message: %v", reply)
	}
}

// TestResponse: the head and the body that the client gets.
func TestResponse(t *testing.T) {
	reply := func(text string) string {
		m := dynamicpb.NewMessage(message(t, "shop.Reply"))
		m.Set(m.Descriptor().Fields().ByName("message"), protoreflect.ValueOfString(text))
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const framing = "\x00\x00\x00\x00\x04"
	any := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte("u/shop.Detail"))
	any = protowire.AppendBytes(protowire.AppendTag(any, 2, protowire.BytesType), []byte("\x0a\x03why"))
	s := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 14)
	s = protowire.AppendBytes(protowire.AppendTag(s, 2, protowire.BytesType), []byte("gone"))
	s = protowire.AppendBytes(protowire.AppendTag(s, 3, protowire.BytesType), any)
	details := base64.RawStdEncoding.EncodeToString(s)
	for _, c := range []struct {
		name, conf string
		head       [][2]string
		status     int
		body       string
		wantStatus int
		want       string
	}{
		{"ok", ``, nil, 200, framing + reply("hi"), 200, `{"message":"hi","sizes":[],"n":0}`},
		{"status 0", ``, [][2]string{{"grpc-status", "0"}}, 200, framing + reply("hi"), 200, `{"message":"hi","sizes":[],"n":0}`},
		{"cut", `,"max_resp_body_size":7`, nil, 200, framing + reply("hi"), 200, "failed to decode response data by protobuf"},
		{"failed", ``, [][2]string{{"grpc-status", "14"}, {"grpc-status-details-bin", details}}, 200, "", 503, ""},
		{"unknown status", ``, [][2]string{{"grpc-status", "17"}}, 200, "", 599, ""},
		{"no status", ``, [][2]string{{"grpc-status", "x"}}, 200, "", 599, ""},
		{"http error", ``, nil, 502, "page", 502, "page"},
		{"shown", `,"show_status_in_body":true`, [][2]string{{"grpc-status", "5"}, {"grpc-status-details-bin", details}}, 200, "", 404,
			`{"error":{"code":14,"message":"gone","details":[{"type_url":"u/shop.Detail","value":"\n\u0003why"}]}}`},
		{"details", `,"show_status_in_body":true,"status_detail_type":"shop.Detail"`, [][2]string{{"grpc-status", "5"}, {"grpc-status-details-bin", details}}, 200, "", 404,
			`{"error":{"code":14,"message":"gone","details":[{"why":"why"}]}}`},
		{"no such details", `,"show_status_in_body":true,"status_detail_type":"shop.None"`, [][2]string{{"grpc-status", "5"}, {"grpc-status-details-bin", details}}, 200, "", 404, notDetails},
		{"no base64", `,"show_status_in_body":true`, [][2]string{{"grpc-status", "5"}, {"grpc-status-details-bin", "%"}}, 200, "", 404, notBase64},
		{"no details", `,"show_status_in_body":true`, [][2]string{{"grpc-status", "5"}, {"grpc-status-details-bin", "////"}}, 200, "", 404, notStatus},
		{"nothing to show", `,"show_status_in_body":true`, [][2]string{{"grpc-status", "5"}}, 200, "", 404, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newGateway(t, shop).compile(t, c.conf)
			r := plugintest.NewCtx("/")
			r.Response = &wire.Response{Status: c.status}
			r.Response.Header.Add("Content-Type", "application/grpc")
			for _, h := range c.head {
				r.Response.Header.Add(h[0], h[1])
			}
			p.Header(r)
			got := c.body
			if f := p.Body(r); f != nil {
				got = string(f.Write([]byte(c.body[:len(c.body)/2]), false))
				got += string(f.Write([]byte(c.body[len(c.body)/2:]), true))
			}
			if r.Response.Status != c.wantStatus || got != c.want {
				t.Errorf("%d %s, want %d %s", r.Response.Status, got, c.wantStatus, c.want)
			}
			media, _ := r.Response.Header.Get("Content-Type")
			if (media == "application/json") != (c.status == 200) {
				t.Errorf("%s", media)
			}
		})
	}
}

// TestUnusable: a configuration without a usable proto object is taken and its
// route answers 503.
func TestUnusable(t *testing.T) {
	for _, c := range []struct{ content, conf, words string }{
		{shop, `{"proto_id":"2","service":"shop.Shop","method":"Order"}`, "failed to find proto by id: 2"},
		{"message {", `{"proto_id":"1","service":"shop.Shop","method":"Order"}`, "proto 1: "},
		{shop, `{"proto_id":"1","service":"shop.Shopx","method":"Order"}`, "Undefined service method: shop.Shopx/Order end"},
		{shop, `{"proto_id":"1","service":"shop.Shop","method":"Orderx"}`, "Undefined service method: shop.Shop/Orderx end"},
		{shop, `{"proto_id":"1","service":"shop.Item","method":"Order"}`, "Undefined service method"},
	} {
		g := newGateway(t, c.content)
		p, err := Plugin.Compile([]byte(c.conf), g.Env)
		if err != nil {
			t.Fatal(err)
		}
		if reply := p.Access(plugintest.NewCtx("/")); reply == nil || reply.Status != 503 || !strings.Contains(g.said.String(), c.words) {
			t.Errorf("%s: %v, %s", c.conf, reply, &g.said)
		}
	}
}

func TestConfig(t *testing.T) {
	for conf, want := range map[string]string{
		`{"service":"a","method":"b"}`:                                  `property "proto_id" is required`,
		`{"proto_id":"1","method":"b"}`:                                 `property "service" is required`,
		`{"proto_id":"1","service":"a"}`:                                `property "method" is required`,
		`{"proto_id":"a/b","service":"a","method":"b"}`:                 `property "proto_id" validation failed`,
		`{"proto_id":"1","service":"a","method":"b","pb_option":[]}`:    `property "pb_option" validation failed: expect array to have at least 1 items`,
		`{"proto_id":"1","service":"a","method":"b","pb_option":["x"]}`: `property "pb_option" validation failed: failed to validate item 1`,
	} {
		if _, err := Plugin.Compile([]byte(conf), newGateway(t, shop).Env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", conf, err)
		}
	}
	for conf, want := range map[string]string{`{"proto_id":7}`: "7", `{"proto_id":"p"}`: "p", `{}`: "", `[]`: ""} {
		if got := Plugin.Proto([]byte(conf)); got != want {
			t.Errorf("%s: %q", conf, got)
		}
	}
}

func FuzzStatus(f *testing.F) {
	f.Add([]byte("\x08\x0e\x12\x04gone"))
	f.Fuzz(func(_ *testing.T, raw []byte) { readStatus(raw) })
}
