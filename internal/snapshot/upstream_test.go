package snapshot

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/upstream"
	"weir/internal/wire"
)

func parseRequest(t testing.TB, head string) *wire.Request {
	t.Helper()
	var r wire.Reader
	r.Reset(strings.NewReader(head), wire.Limits{})
	req := new(wire.Request)
	if err := r.ReadRequest(req); err != nil {
		t.Fatal(err)
	}
	return req
}

func TestUpstreamKey(t *testing.T) {
	c := &plugin.Ctx{
		Request: parseRequest(t, "GET /p?device=7&empty= HTTP/1.1\r\nHost: H.example:80\r\nX-Session-Id: s1\r\nCookie: a=1; sid=c2\r\n\r\n"),
		Path:    "/p", Client: "10.0.0.9",
	}
	jack := &plugin.Consumer{Name: "jack"}
	for _, tc := range []struct {
		on, key  string
		consumer *plugin.Consumer
		want     string
	}{
		{"vars", "remote_addr", nil, "10.0.0.9"},
		{"vars", "uri", nil, "/p"},
		{"vars", "host", nil, "h.example"},
		{"vars", "arg_device", nil, "7"},
		{"vars", "arg_none", nil, "10.0.0.9"},
		{"vars", "mqtt_client_id", nil, "10.0.0.9"},
		{"header", "x-session-id", nil, "s1"},
		{"header", "X-Session-Id", nil, "s1"},
		{"header", "X-None", nil, "10.0.0.9"},
		{"cookie", "sid", nil, "c2"},
		{"cookie", "none", nil, "10.0.0.9"},
		{"consumer", "", jack, "jack"},
		{"consumer", "ignored", nil, "10.0.0.9"},
		{"vars_combinations", "$uri-${arg_device}", nil, "/p-7"},
		{"vars_combinations", "$arg_none$arg_device", nil, "7"},
		{"vars_combinations", "$arg_none-x", nil, "10.0.0.9"},
		{"vars_combinations", "constant", nil, "10.0.0.9"},
	} {
		read, err := hashKey(tc.on, tc.key)
		if err != nil {
			t.Fatal(err)
		}
		c.Consumer = tc.consumer
		if got := read(c); got != tc.want {
			t.Errorf("%s %q: %q, want %q", tc.on, tc.key, got, tc.want)
		}
	}
}

// ask makes a request to the upstream of an object, which nothing answers.
func ask(t testing.TB, u *Upstream) {
	t.Helper()
	c := &upstream.Call{Request: parseRequest(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")}
	if err := u.RoundTrip(c); err == nil {
		t.Error("port 1 answers")
	}
	c.Finish()
}

const passive = `"checks":{"active":{"type":"tcp","healthy":{"interval":1000},"unhealthy":{"interval":1000,"tcp_failures":200}},
	"passive":{"unhealthy":{"tcp_failures":100}}}`

func checkedNodes(nodes ...string) string {
	return fmt.Sprintf(`{"nodes":{"%s":1},%s}`, strings.Join(nodes, `":1,"`), passive)
}

// told is what Health tells, object by object.
func told(s *Snapshot) map[string]string {
	m := map[string]string{}
	for c := range s.Health {
		var nodes []string
		for _, n := range c.Nodes {
			if n.Counter.TCP > 9 {
				nodes = append(nodes, n.IP+" counted")
			} else {
				nodes = append(nodes, n.IP)
			}
		}
		m[c.Object.String()] = c.Type + " " + strings.Join(nodes, ",")
	}
	return m
}

func TestHealthOfObjects(t *testing.T) {
	b := newBench(t)
	b.put(
		"upstreams/u", checkedNodes("127.0.0.1:1"),
		"upstreams/plain", `{"nodes":{"127.0.0.1:1":1}}`,
		"services/s", `{"upstream":`+checkedNodes("127.0.0.2:1")+`}`,
		"routes/own", `{"uri":"/own","upstream":`+checkedNodes("127.0.0.3:1")+`}`,
		"routes/service", `{"uri":"/service","service_id":"s"}`,
		"routes/upstream", `{"uri":"/upstream","upstream_id":"u"}`,
		"routes/off", `{"uri":"/off","status":0,"upstream":`+checkedNodes("127.0.0.4:1")+`}`,
	)
	s := b.Current()
	want := map[string]string{"upstreams/u": "tcp ", "services/s": "tcp ", "routes/own": "tcp "}
	if got := told(s); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatal("before a request:", got)
	}
	own, _ := s.routes.Get("own")
	service, _ := s.services.Get("s")
	up, _ := s.upstreams.Get("u")
	for _, u := range []*Upstream{own.running.Value.Upstream, service.upstream, up.running} {
		for range 12 {
			ask(t, u)
		}
	}
	want = map[string]string{"upstreams/u": "tcp 127.0.0.1 counted", "services/s": "tcp 127.0.0.2 counted", "routes/own": "tcp 127.0.0.3 counted"}
	if got := told(b.Current()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatal(got)
	}
	// Other nodes: what stays keeps its counters, for each kind of object.
	b.put(
		"upstreams/u", checkedNodes("127.0.0.1:1", "127.0.0.9:1"),
		"services/s", `{"upstream":`+checkedNodes("127.0.0.9:1", "127.0.0.2:1")+`}`,
		"routes/own", `{"uri":"/own","priority":3,"upstream":`+checkedNodes("127.0.0.3:1")+`}`,
	)
	want = map[string]string{
		"upstreams/u": "tcp 127.0.0.1 counted,127.0.0.9", "services/s": "tcp 127.0.0.9,127.0.0.2 counted", "routes/own": "tcp 127.0.0.3 counted",
	}
	if got := told(b.Current()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatal(got)
	}
	for path, want := range map[string]bool{"upstreams/u": true, "upstreams/plain": false, "services/s": true, "routes/own": true, "routes/service": false, "routes/none": false} {
		if c, ok := b.Current().HealthOf(keyOf(path)); ok != want || ok && c.Object.String() != path {
			t.Error(path, c, ok)
		}
	}
	// An object that was deleted and made again is another.
	b.revision++
	b.Apply(model.Delta{Revision: b.revision, Put: []model.Object{{
		Key: keyOf("upstreams/u"), Created: b.revision, Modified: b.revision, Raw: []byte(checkedNodes("127.0.0.1:1")),
	}}})
	if got := told(b.Current())["upstreams/u"]; got != "tcp " {
		t.Fatal(got)
	}
}

// Checking whether an object compiles touches nothing that runs.
func TestCheckLeavesHealthAlone(t *testing.T) {
	b := newBench(t)
	b.put("upstreams/u", checkedNodes("127.0.0.1:1"))
	e, _ := b.Current().upstreams.Get("u")
	ask(t, e.running)
	if err := b.Check(model.Object{Key: keyOf("upstreams/u"), Raw: []byte(checkedNodes("127.0.0.2:1"))}); err != nil {
		t.Fatal(err)
	}
	if got := told(b.Current())["upstreams/u"]; got != "tcp 127.0.0.1" {
		t.Fatal(got)
	}
}

func certificatePEM(t testing.TB) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

// An ssl object of type client is what upstreams may show; it is read once.
func TestClientCertificate(t *testing.T) {
	b := newBench(t)
	cert, key := certificatePEM(t)
	doc := func(typ, key string) string {
		raw, err := json.Marshal(map[string]string{"type": typ, "cert": cert, "key": key, "sni": "a.example"})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	fails := func(want string) {
		t.Helper()
		if _, err := b.certificate("1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatal(err)
		}
	}
	fails("there is no ssl object")
	b.put("ssls/1", doc("server", key))
	fails("wrong ssl type")
	b.put("ssls/1", doc("client", "rubbish"))
	fails("ssl object")
	b.put("ssls/1", doc("client", key))
	first, err := b.certificate("1")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := b.certificate("1"); err != nil || second != first {
		t.Fatal("read again", err)
	}
	b.Apply(model.Delta{Revision: 99, Del: []model.Key{keyOf("ssls/1")}})
	fails("there is no ssl object")
	b.config.Upstream.OpenKey = func(s string) (string, bool) { return key, s == "sealed" }
	b.put("ssls/1", doc("client", "sealed"))
	if _, err := b.certificate("1"); err != nil {
		t.Fatal(err)
	}
	b.put("ssls/1", doc("client", "broken"))
	fails("cannot be decrypted")
}
