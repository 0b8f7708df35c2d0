package contentcaching

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
	"weir/internal/wire"
)

var begin = time.Unix(1_700_000_000, 0)

// A bench is a product with an upstream, at a time of its own.
type bench struct {
	t       *testing.T
	now     time.Time
	product *threescale.Product
	keeper  plugin.Keeper
	policy  plugin.Phases

	// What the upstream answers.
	status int
	fields string // lines without CR
	body   string
	cut    bool // it does not come to the end

	asked int // how often
	last  *wire.Request
}

const always = `{"rules":[{"cache":true,"header":"X-Cache-Status"}]}`

func newBench(t *testing.T, config string) *bench {
	b := &bench{t: t, now: begin, status: 200, body: "body"}
	rt := threescaletest.Runtime(func() time.Time { return b.now })
	t.Cleanup(rt.Close)
	b.product = threescaletest.Of(t, &model.Product{ID: "42", Upstream: "http://api.example", Hosts: []string{"example.com"}})
	b.product.Runtime = rt
	t.Cleanup(b.keeper.Close)
	b.policy = b.compile(config)
	return b
}

func (b *bench) compile(config string) plugin.Phases {
	b.t.Helper()
	env := threescaletest.Env(b.product)
	env.Keep = b.keeper.Uses()
	ph, err := Policy.Compile([]byte(config), env)
	if err != nil {
		b.t.Fatal(err)
	}
	return ph
}

// A got is what the client gets.
type got struct {
	status  int
	cache   string // X-Cache-Status
	body    string
	header  *wire.Header
	replied bool // not by the upstream
}

// A pending is a request whose answer has not come.
type pending struct {
	b *bench
	*plugin.Ctx
	reply *plugin.Reply
}

// send takes a request through the phases up to the upstream.
func (b *bench) send(method, target string, fields ...[2]string) *pending {
	c := threescaletest.Ctx(b.product, target, fields...)
	c.Request.Method = method
	if reply := threescale.Route(c); reply != nil {
		b.t.Fatalf("no upstream: %d", reply.Status)
	}
	p := &pending{b: b, Ctx: c}
	if b.policy.Content != nil {
		p.reply = b.policy.Content(c)
	}
	if p.reply == nil {
		b.asked++
		b.last = c.Request
	}
	return p
}

// answer takes it through the rest, as the engine does.
func (p *pending) answer() got {
	b, c := p.b, p.Ctx
	c.Response = &wire.Response{Status: b.status, Length: int64(len(b.body))}
	body := []byte(b.body)
	if p.reply != nil {
		c.Response.Status, c.Response.Length, body = p.reply.Status, int64(len(p.reply.Body)), p.reply.Body
		for _, f := range p.reply.Header {
			c.Response.Header.Add(f[0], f[1])
		}
	} else {
		b.receive(c)
	}
	c.Response.Header.Add("Server", "Weir")
	c.Response.Header.Add("X-Policy", "1") // of a policy before this one
	if b.policy.Header != nil {
		b.policy.Header(c)
		if f := b.policy.Body(c); f != nil {
			out := body[:0:0]
			if e, ok := f.(plugin.Ender); ok && e.Ended() {
				out = append(out, f.Write(nil, true)...)
			} else {
				half := len(body) / 2
				out = append(out, f.Write(body[:half], false)...)
				if !b.cut || p.reply != nil {
					out = append(out, f.Write(body[half:], true)...)
				}
			}
			body = out
		}
		b.policy.Log(c)
	}
	if c.Request.Method == "HEAD" || c.Response.Status == 304 {
		body = nil
	}
	cache, _ := c.Response.Header.Get("X-Cache-Status")
	return got{c.Response.Status, cache, string(body), &c.Response.Header, p.reply != nil}
}

// receive makes the upstream's head the response.
func (b *bench) receive(c *plugin.Ctx) {
	if b.status == 0 { // it does not answer
		c.Response.Status, c.Sent.Source = 502, plugin.FromProxy
		return
	}
	text := fmt.Sprintf("HTTP/1.1 %d X\n%s", b.status, b.fields)
	if !strings.Contains(b.fields, "Transfer-Encoding") {
		text += fmt.Sprintf("Content-Length: %d\n", len(b.body))
	}
	var r wire.Reader
	r.Reset(strings.NewReader(strings.ReplaceAll(text+"\n", "\n", "\r\n")), wire.Limits{})
	head := new(wire.Response)
	if err := r.ReadResponse(head, "GET"); err != nil {
		b.t.Fatal(err)
	}
	c.Response = head
	c.Sent.Source = plugin.FromUpstream
	c.Sent.Tries = []plugin.Try{{Status: b.status}}
	for i, f := range head.Header.Fields() {
		if k := f.Known.Name(); k == wire.KnownContentLength || k == wire.KnownTransferEncoding || k == wire.KnownConnection {
			head.Header.Fields()[i].Dropped = true
		}
	}
}

func (b *bench) get(target string, fields ...[2]string) got {
	return b.send("GET", target, fields...).answer()
}

// want sends a GET and wants its status in the cache.
func (b *bench) want(target, cache string, fields ...[2]string) got {
	b.t.Helper()
	g := b.get(target, fields...)
	if g.cache != cache || g.status != 200 && g.status != b.status {
		b.t.Errorf("%s: %d %q, want %q", target, g.status, g.cache, cache)
	}
	return g
}

func TestKeys(t *testing.T) {
	b := newBench(t, always)
	b.want("/foo", "MISS")
	if g := b.want("/foo", "HIT"); g.body != "body" || !g.replied {
		t.Errorf("%+v", g)
	}
	b.want("/foo?a=1", "MISS")
	b.want("/FOO", "MISS")
	b.want("/foo?a=1", "HIT")
	other, err := threescale.NewUpstream("https://api.example")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := func() string {
		p := b.send("GET", "/foo")
		threescale.End(p.Ctx)
		c := threescaletest.Ctx(b.product, "/foo")
		threescale.Of(c).Upstream = other
		c.To.Upstream = threescaletest.Reached{}
		p = &pending{b: b, Ctx: c, reply: b.policy.Content(c)}
		return p.answer().cache
	}
	if a, again := elsewhere(), elsewhere(); a != "MISS" || again != "HIT" {
		t.Errorf("another upstream: %s, then %s", a, again)
	}
	secure := b.send("GET", "/foo")
	if secure.reply == nil {
		t.Error("not kept")
	}
	c := threescaletest.Ctx(b.product, "/foo")
	c.Scheme, c.To.Upstream = "https", threescaletest.Reached{}
	if b.policy.Content(c) != nil {
		t.Error("the scheme does not matter")
	}
	// Another configuration of the product finds what this one has kept; another
	// product does not.
	b.policy = b.compile(always)
	b.want("/foo", "HIT")
	m := *b.product.Product
	m.ID = "43"
	rt := b.product.Runtime
	b.product = threescaletest.Of(t, &m)
	b.product.Runtime = rt
	b.policy = b.compile(always)
	b.want("/foo", "MISS")
}

func TestRules(t *testing.T) {
	const no = `{"left":"a","op":"==","right":"b"}`
	b := newBench(t, `{"rules":[
		{"cache":true,"header":"X-Cache-Status","condition":{"combine_op":"and","operations":[`+no+`]}},
		{"cache":false,"header":"X-Cache-Status"},
		{"cache":true,"header":"X-Cache-Status","condition":{"combine_op":"and","operations":[{"left":"{{uri}}","left_type":"liquid","op":"==","right":"/foo"}]}},
		{"cache":true,"header":"X-Second","condition":{"combine_op":"and","operations":[{"left":"{{uri}}","left_type":"liquid","op":"==","right":"/bar"}]}},
		{"cache":true,"condition":{"combine_op":"and","operations":[{"left":"{{uri}}","left_type":"liquid","op":"==","right":"/silent"}]}}]}`)
	b.want("/foo", "MISS")
	b.want("/foo", "HIT")
	b.want("/test", "")
	b.want("/test", "")
	g := b.get("/bar")
	if v, _ := g.header.Get("X-Second"); v != "MISS" || g.cache != "" {
		t.Errorf("%q %q", v, g.cache)
	}
	b.get("/silent")
	if g := b.get("/silent"); !g.replied || g.cache != "" {
		t.Errorf("%+v", g)
	}
	for _, config := range []string{`{}`, `{"rules":[]}`, `{"rules":[{"cache":false}]}`, `{"rules":[{"cache":true,"condition":{"operations":[` + no + `]}}]}`} {
		if ph := b.compile(config); ph.Content != nil || ph.Header != nil {
			t.Errorf("%s costs", config)
		}
	}
	if _, err := Policy.Compile([]byte(`{"rules":[{"cache":true,"condition":{"operations":[{"op":"<"}]}}]}`), threescaletest.Env(b.product)); err == nil {
		t.Error("a broken condition is accepted")
	}
}

// TestFreshness: what the upstream says of an answer decides (RFC 9111, nginx).
func TestFreshness(t *testing.T) {
	date := func(after time.Duration) string {
		return begin.Add(after).UTC().Format("Mon, 02 Jan 2006 15:04:05") + " GMT"
	}
	for _, tc := range []struct {
		name, fields string
		status       int // 0: 200
		keeps        int // seconds; 0: not at all
	}{
		{"nothing", "", 0, 60},
		{"a status of the list", "", 302, 60},
		{"a status that is not", "", 404, 0},
		{"a status that is not, said to be fresh", "Cache-Control: max-age=10\n", 404, 10},
		{"max-age", "Cache-Control: max-age=10\n", 0, 10},
		{"max-age, quoted, in capitals", "cache-control: Max-Age=\"10\"\n", 0, 10},
		{"s-maxage first", "Cache-Control: max-age=10, s-maxage=20\n", 0, 20},
		{"in two fields", "Cache-Control: public\nCache-Control: max-age=10\n", 0, 10},
		{"max-age=0", "Cache-Control: max-age=0\n", 0, 0},
		{"odd max-age", "Cache-Control: max-age=x\n", 0, 0},
		{"no-cache", "Cache-Control: no-cache\n", 0, 0},
		{"no-store", "Cache-Control: max-age=10, no-store\n", 0, 0},
		{"private", "Cache-Control: private, max-age=10\n", 0, 0},
		{"private field", "Cache-Control: private=\"x\", max-age=10\n", 0, 0},
		{"public", "Cache-Control: public\n", 0, 60},
		{"Expires", "Expires: " + date(30*time.Second) + "\n", 0, 30},
		{"Expires before", "Expires: " + date(-time.Second) + "\n", 0, 0},
		{"Expires: 0", "Expires: 0\n", 0, 0},
		{"Cache-Control before Expires", "Expires: " + date(-time.Second) + "\nCache-Control: max-age=10\n", 0, 10},
		{"X-Accel-Expires", "X-Accel-Expires: 15\nCache-Control: no-cache\n", 0, 15},
		{"X-Accel-Expires, absolute", fmt.Sprintf("X-Accel-Expires: @%d\n", begin.Unix()+15), 0, 15},
		{"X-Accel-Expires, past", fmt.Sprintf("X-Accel-Expires: @%d\n", begin.Unix()-15), 0, 0},
		{"X-Accel-Expires: 0", "X-Accel-Expires: 0\nCache-Control: max-age=10\n", 0, 0},
		{"odd X-Accel-Expires", "X-Accel-Expires: x\n", 0, 60},
		{"Set-Cookie", "Set-Cookie: a=b\nCache-Control: max-age=10\n", 0, 0},
		{"Vary: *", "Vary: Accept, *\nCache-Control: max-age=10\n", 0, 0},
		{"a part", "Cache-Control: max-age=10\n", 206, 0},
		{"for ever", "Cache-Control: max-age=99999999999999999999\n", 0, 0},
		{"long", "Cache-Control: max-age=9223372036854775807\n", 0, 1 << 31},
	} {
		b := newBench(t, always)
		b.fields = tc.fields
		if tc.status != 0 {
			b.status = tc.status
		}
		b.want("/", "MISS")
		if tc.keeps == 0 {
			if g := b.get("/"); g.cache != "MISS" {
				t.Errorf("%s: %s", tc.name, g.cache)
			}
			continue
		}
		b.now = begin.Add(time.Duration(tc.keeps)*time.Second - time.Nanosecond)
		if g := b.get("/"); g.cache != "HIT" || g.status != b.status {
			t.Errorf("%s: before its end %s, %d", tc.name, g.cache, g.status)
		}
		b.now = begin.Add(time.Duration(tc.keeps) * time.Second)
		if g := b.get("/"); g.cache != "EXPIRED" {
			t.Errorf("%s: at its end %s", tc.name, g.cache)
		}
	}
}

func TestSettings(t *testing.T) {
	b := newBench(t, always)
	b.product.Runtime.CacheStatusCodes, b.product.Runtime.CacheMaxTime = []int{201}, time.Hour
	b.policy = b.compile(always)
	b.want("/a", "MISS")
	b.want("/a", "MISS")
	b.status = 201
	b.want("/b", "MISS")
	b.now = b.now.Add(59 * time.Minute)
	b.want("/b", "HIT")
}

func TestFields(t *testing.T) {
	b := newBench(t, always)
	b.fields = "Content-Type: a/b\nX-Two: 1\nX-Two: 2\nServer: up\nDate: Tue, 14 Nov 2023 22:13:20 GMT\nConnection: X-Hop\nX-Hop: 1\nAge: 7\nETag: \"e\"\n"
	b.get("/")
	b.now = b.now.Add(20 * time.Second)
	g := b.want("/", "HIT")
	got := string(g.header.AppendTo(nil))
	want := "Content-Type: a/b\r\nX-Two: 1\r\nX-Two: 2\r\nETag: \"e\"\r\nServer: Weir\r\nX-Policy: 1\r\nAge: 27\r\nX-Cache-Status: HIT\r\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestVary(t *testing.T) {
	b := newBench(t, always)
	b.fields = "Vary: Accept-Language, accept\n"
	lang := func(l string) [2]string { return [2]string{"Accept-Language", l} }
	b.body = "one"
	b.want("/", "MISS", lang("de"))
	b.body = "two"
	b.want("/", "MISS", lang("en"))
	b.want("/", "MISS")
	if g := b.want("/", "HIT", lang("de")); g.body != "one" {
		t.Error(g.body)
	}
	if g := b.want("/", "HIT", lang("en")); g.body != "two" {
		t.Error(g.body)
	}
	b.want("/", "MISS", lang("en"), [2]string{"Accept", "a/b"})
	b.want("/", "HIT", [2]string{"accept", "a/b"}, lang("en"))
}

func TestMethods(t *testing.T) {
	b := newBench(t, always)
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		for range 2 {
			if g := b.send(method, "/").answer(); g.cache != "" || g.replied {
				t.Errorf("%s: %+v", method, g)
			}
		}
	}
	p := b.send("HEAD", "/")
	if p.To.Method != "GET" {
		t.Errorf("the upstream is asked by %q", p.To.Method)
	}
	if g := p.answer(); g.cache != "MISS" || g.body != "" {
		t.Errorf("%+v", g)
	}
	if g := b.send("HEAD", "/").answer(); g.cache != "HIT" {
		t.Errorf("%+v", g)
	}
	b.want("/", "MISS") // HEAD and GET are kept apart
	c := threescaletest.Ctx(b.product, "/")
	c.To.Upstream, c.Request.Length = threescaletest.Reached{}, 3
	if b.policy.Content(c) != nil {
		t.Error("a GET with a body is answered")
	}
	c.Request.Length, c.To.Websocket = 0, true
	if b.policy.Content(c) != nil {
		t.Error("a WebSocket is answered")
	}
	c.To.Websocket, c.To.Upstream = false, nil
	if b.policy.Content(c) != nil {
		t.Error("what goes nowhere is answered")
	}
}

// TestWhole: only whole bodies of a bounded size are kept.
func TestWhole(t *testing.T) {
	b := newBench(t, always)
	b.cut = true
	b.want("/cut", "MISS")
	b.cut = false
	b.want("/cut", "MISS")
	b.want("/cut", "HIT")

	b.body = strings.Repeat("x", largest+1)
	b.want("/long", "MISS")
	b.want("/long", "MISS")
	b.fields = "Transfer-Encoding: chunked\n"
	b.want("/chunks", "MISS")
	b.want("/chunks", "MISS")
	b.body = strings.Repeat("x", largest)
	b.want("/chunks", "MISS")
	if g := b.want("/chunks", "HIT"); len(g.body) != largest {
		t.Error(len(g.body))
	}
	// A body of another length than the upstream has announced is not its own.
	r := &recorder{policy: &policy{store: &store{}}, made: new(response), length: 7}
	r.Write([]byte("short"), true) // would panic if it were kept
}

func TestStale(t *testing.T) {
	b := newBench(t, always)
	b.fields, b.body = "Cache-Control: max-age=10, stale-if-error=100\nX-Up: 1\nContent-Type: a/b\n", "old"
	b.get("/")
	b.now = b.now.Add(20 * time.Second)
	for _, status := range []int{500, 502, 503, 504, 0} {
		b.status, b.fields, b.body = status, "X-Failed: 1\n", "failure"
		g := b.get("/")
		if g.status != 200 || g.cache != "STALE" || g.body != "old" {
			t.Errorf("%d: %+v", status, g)
		}
		head := string(g.header.AppendTo(nil))
		if strings.Contains(head, "X-Failed") || !strings.Contains(head, "X-Up: 1\r\n") || !strings.Contains(head, "Age: 20\r\n") || !strings.Contains(head, "X-Policy") {
			t.Errorf("%d: %s", status, head)
		}
	}
	for _, status := range []int{403, 404, 429, 501} {
		b.status = status
		if g := b.get("/"); g.status != status || g.cache != "EXPIRED" || g.body != "failure" {
			t.Errorf("%d: %+v", status, g)
		}
	}
	b.status = 500
	b.now = begin.Add(111 * time.Second)
	if g := b.get("/"); g.status != 500 || g.cache != "EXPIRED" {
		t.Errorf("too old: %+v", g)
	}
	b.now = b.now.Add(time.Hour)
	if g := b.get("/"); g.cache != "MISS" {
		t.Errorf("forgotten: %+v", g)
	}
}

func TestUpdating(t *testing.T) {
	b := newBench(t, always)
	b.fields = "Cache-Control: max-age=10, stale-while-revalidate=100\n"
	b.body = "old"
	b.get("/")
	b.now = b.now.Add(20 * time.Second)
	first := b.send("GET", "/")
	if first.reply != nil {
		t.Error("nobody asks for another")
	}
	if g := b.want("/", "UPDATING"); g.body != "old" {
		t.Errorf("%+v", g)
	}
	fields := b.fields
	b.status, b.fields = 500, "" // the update fails: the next may try
	if g := first.answer(); g.cache != "EXPIRED" {
		t.Errorf("%+v", g)
	}
	b.status, b.fields, b.body = 200, fields, "new"
	second := b.send("GET", "/")
	b.want("/", "UPDATING")
	if g := second.answer(); g.cache != "EXPIRED" || g.body != "new" {
		t.Errorf("%+v", g)
	}
	if g := b.want("/", "HIT"); g.body != "new" {
		t.Errorf("%+v", g)
	}
	b.now = b.now.Add(111 * time.Second)
	third := b.send("GET", "/")
	if p := b.send("GET", "/"); third.reply != nil || p.reply != nil {
		t.Error("too old to be given meanwhile")
	}
}

func TestConditional(t *testing.T) {
	b := newBench(t, always)
	b.fields = "ETag: W/\"e\"\nLast-Modified: Tue, 14 Nov 2023 10:00:00 GMT\nContent-Type: a/b\n"
	b.body = "0123456789"
	for _, tc := range []struct {
		fields        [][2]string
		status        int // out of the store
		first         int // on the way into it
		body, content string
	}{
		{[][2]string{{"If-None-Match", `"e"`}}, 304, 304, "", ""},
		{[][2]string{{"If-None-Match", `"x", W/"e"`}}, 304, 304, "", ""},
		{[][2]string{{"If-None-Match", `*`}}, 304, 304, "", ""},
		{[][2]string{{"If-None-Match", `"x"`}}, 200, 200, "0123456789", ""},
		{[][2]string{{"If-None-Match", `"x"`}, {"If-Modified-Since", "Tue, 14 Nov 2023 10:00:00 GMT"}}, 200, 200, "0123456789", ""},
		{[][2]string{{"If-Modified-Since", "Tue, 14 Nov 2023 10:00:00 GMT"}}, 304, 304, "", ""},
		{[][2]string{{"If-Modified-Since", "Tue, 14 Nov 2023 09:59:59 GMT"}}, 200, 200, "0123456789", ""},
		{[][2]string{{"If-Modified-Since", "x"}}, 200, 200, "0123456789", ""},
		{[][2]string{{"Range", "bytes=2-4"}}, 206, 200, "234", "bytes 2-4/10"},
		{[][2]string{{"Range", "bytes=8-"}}, 206, 200, "89", "bytes 8-9/10"},
		{[][2]string{{"Range", "bytes=-3"}}, 206, 200, "789", "bytes 7-9/10"},
		{[][2]string{{"Range", "bytes=-30"}}, 206, 200, "0123456789", "bytes 0-9/10"},
		{[][2]string{{"Range", "bytes=5-99"}}, 206, 200, "56789", "bytes 5-9/10"},
		{[][2]string{{"Range", "bytes=10-"}}, 200, 200, "0123456789", ""},
		{[][2]string{{"Range", "bytes=3-2"}}, 200, 200, "0123456789", ""},
		{[][2]string{{"Range", "bytes=0-1,3-4"}}, 200, 200, "0123456789", ""},
		{[][2]string{{"Range", "lines=1-2"}}, 200, 200, "0123456789", ""},
		{[][2]string{{"Range", "bytes=x-y"}}, 200, 200, "0123456789", ""},
		{[][2]string{{"Range", "bytes=1-2"}, {"If-Range", `"x"`}}, 200, 200, "0123456789", ""},
		{[][2]string{{"Range", "bytes=1-2"}, {"If-Range", "Tue, 14 Nov 2023 10:00:00 GMT"}}, 206, 200, "12", "bytes 1-2/10"},
	} {
		b.now = b.now.Add(time.Hour)
		g := b.get("/", tc.fields...)
		if g.status != tc.first || g.replied || tc.first == 200 && g.body != b.body {
			t.Errorf("%v, first: %+v", tc.fields, g)
		}
		for _, f := range tc.fields {
			if _, there := b.last.Header.Get(f[0]); there {
				t.Errorf("%v: the upstream is asked so", tc.fields)
			}
		}
		if g = b.get("/", tc.fields...); g.status != tc.status || g.body != tc.body || !g.replied {
			t.Errorf("%v: %+v", tc.fields, g)
		}
		content, _ := g.header.Get("Content-Range")
		kind, _ := g.header.Get("Content-Type")
		if content != tc.content || (kind == "a/b") != (tc.status != 304) {
			t.Errorf("%v: %s", tc.fields, g.header.AppendTo(nil))
		}
	}
	for _, name := range []string{"If-Match", "If-Unmodified-Since"} {
		asked := b.asked
		if g := b.get("/", [2]string{name, "x"}); g.cache != "" || b.asked != asked+1 {
			t.Errorf("%s: %+v", name, g)
		}
		if _, there := b.last.Header.Get(name); !there {
			t.Errorf("%s does not reach the upstream", name)
		}
	}
}

func TestMetrics(t *testing.T) {
	b := newBench(t, always)
	b.get("/")
	b.get("/")
	b.get("/")
	var text bytes.Buffer
	if err := b.product.Runtime.Meter.Expose(&text, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`content_caching{status="HIT"} 2`, `content_caching{status="MISS"} 1`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %s in %s", want, text.String())
		}
	}
}

func TestNoAllocation(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	b := newBench(t, always)
	b.get("/")
	c := threescaletest.Ctx(b.product, "/")
	c.Response = &wire.Response{}
	c.To.Upstream = threescaletest.Reached{}
	if n := testing.AllocsPerRun(100, func() {
		if b.policy.Content(c) == nil {
			t.Fatal("not kept")
		}
		b.policy.Log(c)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzFreshness(f *testing.F) {
	f.Add("max-age=1, s-maxage=\"2\"", "@1", "0", 200)
	f.Fuzz(func(t *testing.T, control, accel, expires string, status int) {
		d := &head{cacheControl: control, accelExpires: accel, expires: expires}
		if l, ok := freshness(d, status, begin); ok && !l.fresh.IsZero() && l.fresh.Before(begin) {
			t.Errorf("fresh until %v", l.fresh)
		}
	})
}

func FuzzRange(f *testing.F) {
	f.Add("bytes=1-2", `"e"`, "0123")
	f.Fuzz(func(t *testing.T, ranges, ifRange, body string) {
		r := &response{status: 200, body: []byte(body), etag: `"e"`}
		from, to, ok := (&wants{ranges: ranges, ifRange: ifRange}).part(r)
		if ok && (from < 0 || from >= to || to > int64(len(body))) {
			t.Errorf("%d to %d of %d", from, to, len(body))
		}
	})
}
