package app

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// A zone is a DNS server for one name; what it answers can be changed.
type zone struct {
	conn  net.PacketConn
	mu    sync.Mutex
	rcode dnsmessage.RCode
	mute  bool
	addrs [][4]byte
	ttl   uint32
	asked atomic.Int64
}

func newZone(t *testing.T, addrs ...[4]byte) *zone {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	z := &zone{conn: conn, addrs: addrs, ttl: 1}
	done := make(chan struct{})
	go func() {
		defer close(done)
		z.serve()
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return z
}

func (z *zone) serve() {
	b := make([]byte, 2048)
	for {
		n, from, err := z.conn.ReadFrom(b)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(b[:n]) != nil {
			continue
		}
		z.asked.Add(1)
		if reply := z.reply(&m); reply != nil {
			_, _ = z.conn.WriteTo(reply, from)
		}
	}
}

func (z *zone) reply(m *dnsmessage.Message) []byte {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.mute {
		return nil
	}
	m.Response, m.Additionals, m.RCode = true, nil, z.rcode
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA && z.rcode == dnsmessage.RCodeSuccess {
		for _, a := range z.addrs {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: z.ttl},
				Body:   &dnsmessage.AResource{A: a},
			})
		}
	}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}

func (z *zone) set(f func()) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f()
}

// Rows 143, 144, 147, 148: a name that moves, grows and shrinks is followed; while
// DNS fails in any way what was known serves, and the same answer afterwards is as
// good as any other. A name that is gone has no node, until it is back.
func TestFieldDNS(t *testing.T) {
	one, two := [4]byte{127, 0, 0, 1}, [4]byte{127, 0, 0, 2}
	first, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := first.Addr().(*net.TCPAddr).Port
	second, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.2:%d", port))
	if err != nil {
		t.Skip("the loopback has one address here: ", err)
	}
	for _, l := range []net.Listener{first, second} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Context().Value(http.LocalAddrContextKey).(net.Addr).(*net.TCPAddr).IP)
		}))
		s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
	}
	z := newZone(t, one)
	o, _ := options(t, t.TempDir(), withKey)
	o.Config.APISIX.DNS.Resolvers = []string{z.conn.LocalAddr().String()}
	o.Config.APISIX.DNS.Timeout = 200 * time.Millisecond
	g := start(t, o)
	defer stop(t, g)
	if status, body := do(t, g, "PUT", "/routes/1", fmt.Sprintf(`{"uri":"/*","upstream":{"nodes":{"svc.test:%d":1}}}`, port)); status != 201 {
		t.Fatal(body)
	}
	ask := func() string {
		status, body := get(t, "http://"+g.Data()[0].String()+"/")
		if status != 200 {
			return fmt.Sprint(status)
		}
		return body
	}
	follows := func(what, want string) {
		t.Helper()
		until(t, what, func() bool { return ask() == want })
	}
	follows("the first address", "127.0.0.1")
	z.set(func() { z.addrs = [][4]byte{two} })
	follows("an address that has moved", "127.0.0.2")
	z.set(func() { z.addrs = [][4]byte{one, two} })
	follows("a second address", "127.0.0.1")
	z.set(func() { z.addrs = [][4]byte{two} })
	until(t, "an address that was taken away is not used", func() bool {
		for range 6 {
			if ask() != "127.0.0.2" {
				return false
			}
		}
		return true
	})
	for name, break_ := range map[string]func(){
		"servfail": func() { z.rcode = dnsmessage.RCodeServerFailure },
		"refused":  func() { z.rcode = dnsmessage.RCodeRefused },
		"silent":   func() { z.mute = true },
	} {
		before := z.asked.Load()
		z.set(break_)
		until(t, name+": it is asked again", func() bool {
			if got := ask(); got != "127.0.0.2" {
				t.Fatalf("%s: %s", name, got)
			}
			return z.asked.Load() > before+2
		})
		z.set(func() { z.mute, z.rcode = false, dnsmessage.RCodeSuccess })
		follows(name+": the same answer as before", "127.0.0.2")
	}
	z.set(func() { z.addrs = nil })
	follows("a name without addresses", "503")
	z.set(func() { z.addrs = [][4]byte{one} })
	follows("the name is back", "127.0.0.1")
}

// Row 146: dns_resolver_valid replaces the records' own time.
func TestFieldResolverValid(t *testing.T) {
	_, port, _ := net.SplitHostPort(origin(t))
	z := newZone(t, [4]byte{127, 0, 0, 1})
	z.set(func() { z.ttl = 3600 })
	o, _ := options(t, t.TempDir(), withKey)
	o.Config.APISIX.DNS.Resolvers = []string{z.conn.LocalAddr().String()}
	o.Config.APISIX.DNS.Valid = time.Second
	g := start(t, o)
	defer stop(t, g)
	if status, body := do(t, g, "PUT", "/routes/1", fmt.Sprintf(`{"uri":"/*","upstream":{"nodes":{"svc.test:%s":1}}}`, port)); status != 201 {
		t.Fatal(body)
	}
	until(t, "the name is asked for again, though its record is good for an hour", func() bool {
		if status, body := get(t, "http://"+g.Data()[0].String()+"/"); status != 200 {
			t.Fatal(status, body)
		}
		return z.asked.Load() > 4
	})
}

// Row 151: a node that dies costs no request, since there is another, and is not
// asked any more once its check has failed.
func TestFieldNodeDies(t *testing.T) {
	var dying atomic.Int64
	doomed := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { dying.Add(1) }))
	stays := origin(t)
	o, _ := options(t, t.TempDir(), withKey)
	g := start(t, o)
	defer stop(t, g)
	doc := fmt.Sprintf(`{"uri":"/*","upstream":{"type":"roundrobin","nodes":{%q:1,%q:1},
		"checks":{"active":{"http_path":"/","healthy":{"interval":1,"successes":1},"unhealthy":{"interval":1,"tcp_failures":1,"http_failures":1}}}}}`,
		doomed.Listener.Addr().String(), stays)
	if status, body := do(t, g, "PUT", "/routes/1", doc); status != 201 {
		t.Fatal(body)
	}
	ask := func() {
		t.Helper()
		if status, body := get(t, "http://"+g.Data()[0].String()+"/"); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	for dying.Load() == 0 {
		ask()
	}
	doomed.Close()
	until(t, "the check finds it down", func() bool {
		ask()
		_, body := get(t, "http://"+g.Control().String()+"/v1/healthcheck/routes/1")
		return strings.Contains(body, `"status":"unhealthy"`)
	})
	back, err := net.Listen("tcp", doomed.Listener.Addr().String()) // asked nothing but probes
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	for range 10 {
		ask()
	}
}

// Row 64: a node that was taken from an upstream is neither checked any more nor
// listed, whatever the upstream belongs to.
func TestFieldNodeRemoved(t *testing.T) {
	s := newSite(t, "")
	probed := func() (*atomic.Int64, string) {
		n := new(atomic.Int64)
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/probe" {
				n.Add(1)
			}
		}))
		t.Cleanup(server.Close)
		return n, server.Listener.Addr().String()
	}
	const checks = `"checks":{"active":{"http_path":"/probe","healthy":{"interval":1},"unhealthy":{"interval":1}}}`
	upstream := func(nodes ...string) string {
		return fmt.Sprintf(`{"type":"roundrobin","nodes":{"%s":1},%s}`, strings.Join(nodes, `":1,"`), checks)
	}
	type object struct {
		path, uri     string
		put           func(upstream string)
		kept, gone    *atomic.Int64
		stays, leaves string
	}
	objects := []*object{
		{path: "upstreams/u", uri: "/u", put: func(u string) {
			s.put("upstreams/u", u)
			s.put("routes/u", `{"uri":"/u","upstream_id":"u"}`)
		}},
		{path: "services/s", uri: "/s", put: func(u string) {
			s.put("services/s", `{"upstream":`+u+`}`)
			s.put("routes/s", `{"uri":"/s","service_id":"s"}`)
		}},
		{path: "routes/r", uri: "/r", put: func(u string) { s.put("routes/r", `{"uri":"/r","upstream":`+u+`}`) }},
	}
	for _, o := range objects {
		o.kept, o.stays = probed()
		o.gone, o.leaves = probed()
		o.put(upstream(o.stays, o.leaves))
		s.get(o.uri, "")
	}
	rounds := func(what string, n int64, of func(*object) *atomic.Int64) {
		t.Helper()
		for _, o := range objects {
			before := of(o).Load()
			until(t, o.path+": "+what, func() bool { return of(o).Load() >= before+n })
		}
	}
	rounds("both are checked", 1, func(o *object) *atomic.Int64 { return o.gone })
	for _, o := range objects {
		o.put(upstream(o.stays))
		s.get(o.uri, "")
		_, port, _ := net.SplitHostPort(o.leaves)
		if _, body := get(t, "http://"+s.g.Control().String()+"/v1/healthcheck/"+o.path); strings.Contains(body, port) {
			t.Errorf("%s: still listed: %s", o.path, body)
		}
	}
	rounds("a check after the change", 2, func(o *object) *atomic.Int64 { return o.kept })
	var after []int64
	for _, o := range objects {
		after = append(after, o.gone.Load())
	}
	rounds("two rounds more", 2, func(o *object) *atomic.Int64 { return o.kept })
	for i, o := range objects {
		if n := o.gone.Load() - after[i]; n != 0 {
			t.Errorf("%s: the removed node was checked %d times", o.path, n)
		}
	}
}

// Row 158: a node that is silent is given up after the read time-out, the next one
// answers, and the status of both is told; retry_timeout bounds all of it.
func TestFieldSilentNode(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts by its queue alone
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := origin(t)
	dir := t.TempDir()
	o, _ := options(t, dir, withKey)
	g := start(t, o)
	route := func(id, first, second, more string) {
		t.Helper()
		doc := fmt.Sprintf(`{"uri":"/%s","upstream":{"type":"roundrobin","nodes":[{"host":%q,"weight":1,"priority":1},{"host":%q,"weight":1}],
			"timeout":{"connect":1,"send":1,"read":0.2}%s}}`, id, first, second, more)
		for _, node := range []string{first, second} {
			host, port, _ := net.SplitHostPort(node)
			doc = strings.ReplaceAll(doc, fmt.Sprintf(`"host":%q`, node), fmt.Sprintf(`"host":%q,"port":%s`, host, port))
		}
		if status, body := do(t, g, "PUT", "/routes/"+id, doc); status != 201 {
			t.Fatal(body)
		}
	}
	silent := l.Addr().String()
	route("next", silent, other, "")
	route("bounded", silent, silent, `,"retries":5,"retry_timeout":0.1`)
	url := "http://" + g.Data()[0].String()
	if status, body := get(t, url+"/next"); status != 200 || body != "hello" {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := get(t, url+"/bounded"); status != 502 {
		t.Errorf("after retry_timeout: %d", status)
	}
	stop(t, g)
	log, err := os.ReadFile(filepath.Join(dir, "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"GET /next HTTP/1.1 200 504, 200 ", "GET /bounded HTTP/1.1 502 504 "} {
		if !strings.Contains(string(log), want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
}

// Rows 209, 210: what is under way when the gateway is told to stop is finished,
// and what waits to be logged is sent; then it is over.
func TestFieldStop(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-release
		io.WriteString(w, "late")
	}))
	defer slow.Close()
	var logged atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		logged.Add(int64(strings.Count(string(b), `"route_id":"1"`)))
	}))
	defer sink.Close()
	o, _ := options(t, t.TempDir(), withKey)
	g := start(t, o)
	doc := fmt.Sprintf(`{"uri":"/*","plugins":{"http-logger":{"uri":%q,"inactive_timeout":3600,"buffer_duration":3600}},"upstream":{"nodes":{%q:1}}}`,
		sink.URL, slow.Listener.Addr().String())
	if status, body := do(t, g, "PUT", "/routes/1", doc); status != 201 {
		t.Fatal(body)
	}
	answered := make(chan string, 1)
	go func() {
		res, err := http.Get("http://" + g.Data()[0].String() + "/")
		if err != nil {
			answered <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		answered <- fmt.Sprint(res.StatusCode, " ", string(b))
	}()
	<-asked
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop(t, g)
	}()
	until(t, "it accepts nobody any more", func() bool {
		c, err := net.Dial("tcp", g.Data()[0].String())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(release)
	if got := <-answered; got != "200 late" {
		t.Error(got)
	}
	<-stopped
	if n := logged.Load(); n != 1 {
		t.Errorf("%d entries arrived of one request", n)
	}
}
