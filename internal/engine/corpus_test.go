package engine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// corpus is the raw requests and answers of internal/wire/testdata.
type corpus struct {
	Responses map[string]string
	Cases     []corpusCase
}

type corpusCase struct {
	Name, Raw, Upstream string
	Status              []int
}

func loadCorpus(t *testing.T) (c corpus) {
	b, err := os.ReadFile("../wire/testdata/raw-bytes.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &c); err != nil || len(c.Cases) != 122 {
		t.Fatal(err, len(c.Cases))
	}
	return c
}

var (
	repeated = regexp.MustCompile(`\{a\*(\d+)\}`)
	numbered = regexp.MustCompile(`\{X-Hn: v CRLF, n=0\.\.(\d+)\}`)
	pause    = regexp.MustCompile(`<(\d+)ms>|<close>`)
)

const corpusKey = "0123456789abcdef"

// expand turns the corpus's notation into bytes.
func expand(raw string) []byte {
	raw = strings.ReplaceAll(raw, "{KEY}", corpusKey)
	raw = repeated.ReplaceAllStringFunc(raw, func(s string) string {
		n, _ := strconv.Atoi(repeated.FindStringSubmatch(s)[1])
		return strings.Repeat("a", n)
	})
	raw = numbered.ReplaceAllStringFunc(raw, func(s string) string {
		last, _ := strconv.Atoi(numbered.FindStringSubmatch(s)[1])
		var b strings.Builder
		for n := range last + 1 {
			fmt.Fprintf(&b, "X-H%d: v\r\n", n)
		}
		return b.String()
	})
	var out []byte
	for _, c := range raw {
		out = append(out, byte(c))
	}
	return out
}

// recorder is the corpus's upstream: it records complete requests and answers
// by their X-Mode header.
type recorder struct {
	responses map[string]string
	mu        sync.Mutex
	whole     []*http.Request // complete ones
	cut       int             // those that ended in the middle
}

func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.whole, r.cut = nil, 0
}

func (r *recorder) serve(_ *origin, c net.Conn, in *bufio.Reader) {
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		r.mu.Lock()
		if err != nil {
			r.cut++
			r.mu.Unlock()
			return
		}
		req.Body = io.NopCloser(strings.NewReader(string(body)))
		r.whole = append(r.whole, req)
		r.mu.Unlock()
		if !r.answer(c, req) {
			return
		}
	}
}

// answer writes the mode's answer and reports whether the connection stays.
func (r *recorder) answer(c net.Conn, req *http.Request) bool {
	mode := req.Header.Get("X-Mode")
	text, ok := r.responses[mode]
	if !ok {
		body := "ok"
		if strings.HasPrefix(mode, "id") {
			body = mode
		}
		text = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body))
		if req.Method != "HEAD" {
			text += body
		}
	}
	for text != "" {
		at := pause.FindStringSubmatchIndex(text)
		if at == nil {
			io.WriteString(c, text)
			break
		}
		io.WriteString(c, text[:at[0]])
		if at[2] < 0 {
			return false
		}
		ms, _ := strconv.Atoi(text[at[2]:at[3]])
		time.Sleep(time.Duration(ms) * time.Millisecond)
		text = text[at[1]:]
	}
	return true
}

func TestCorpus(t *testing.T) {
	corpus := loadCorpus(t)
	rec := &recorder{responses: corpus.Responses}
	up := serve(t, rec.serve)
	g := start(t, nil)
	g.put(
		"routes/1", fmt.Sprintf(`{"uri":"/small","host":"api1.example.com","plugins":{"key-auth":{}},"upstream":{"nodes":{%q:1}}}`, up.addr),
		"consumers/jack", fmt.Sprintf(`{"username":"jack","plugins":{"key-auth":{"key":%q}}}`, corpusKey),
	)
	for _, c := range corpus.Cases {
		t.Run(c.Name, func(t *testing.T) { g.corpusCase(t, rec, c) })
	}
}

func (g *gateway) corpusCase(t *testing.T, rec *recorder, c corpusCase) {
	rec.reset()
	conn := dial(t, g.addr)
	defer conn.Close()
	if _, err := conn.Write(expand(c.Raw)); err != nil && !slices.Contains(c.Status, 431) {
		t.Fatal(err)
	}
	want := 1
	if c.Upstream == "twice" {
		want = 2
	}
	status, answers := readStatuses(conn, want)
	if !slices.Contains(c.Status, status) {
		t.Errorf("status %d, want one of %v", status, c.Status)
	}
	if answers != want {
		t.Errorf("%d answers, want %d", answers, want)
	}
	rec.check(t, c)
	if strings.HasPrefix(c.Name, "resp late unsolicited") {
		time.Sleep(80 * time.Millisecond) // the poison arrives on the idle connection
	}
	g.checkFresh(t)
}

// readStatuses reads up to max final answers and returns the last one's status
// and their number.
func readStatuses(c *client, max int) (status, n int) {
	for n < max {
		r, err := http.ReadResponse(c.r, &http.Request{Method: "GET"})
		if err != nil {
			return status, n
		}
		if r.StatusCode < 200 {
			continue
		}
		status, n = r.StatusCode, n+1
		if n < max {
			io.Copy(io.Discard, r.Body)
		}
	}
	return status, n
}

// check compares what reached the upstream.
func (r *recorder) check(t *testing.T, c corpusCase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	want := map[string]int{"none": 0, "cut": 0, "once": 1, "twice": 2}
	if n, ok := want[c.Upstream]; ok && len(r.whole) != n {
		t.Errorf("%d complete requests at the upstream, want %s", len(r.whole), c.Upstream)
	}
	for _, req := range r.whole {
		r.checkClean(t, c, req)
	}
}

// checkClean holds for everything that ever reaches the upstream.
func (r *recorder) checkClean(t *testing.T, c corpusCase, req *http.Request) {
	for name, values := range req.Header {
		folded := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		switch folded {
		case "x-consumer-username":
			if !slices.Equal(values, []string{"jack"}) || strings.Contains(name, "_") {
				t.Errorf("upstream saw %s: %q", name, values)
			}
		case "x-real-ip":
			if !slices.Equal(values, []string{"127.0.0.1"}) {
				t.Errorf("upstream saw %s: %q", name, values)
			}
		case "connection", "keep-alive", "te", "upgrade", "http2-settings", "expect", "x-a":
			if folded != "x-a" || strings.HasPrefix(c.Name, "Connection:") {
				t.Errorf("upstream saw %s: %q", name, values)
			}
		}
	}
	if req.Host != "api1.example.com" {
		t.Errorf("upstream saw Host %q", req.Host)
	}
	for name := range req.Trailer {
		if name != "X-T" {
			t.Errorf("upstream saw trailer %s", name)
		}
	}
}

// checkFresh sends a correct request on a new connection: it gets its own answer.
func (g *gateway) checkFresh(t *testing.T) {
	conn := dial(t, g.addr)
	defer conn.Close()
	conn.send("GET /small HTTP/1.1\r\nHost: api1.example.com\r\napikey: %s\r\nX-Mode: idfresh\r\n\r\n", corpusKey)
	r, body := conn.answer("GET")
	if r.StatusCode != 200 || body != "idfresh" {
		t.Errorf("the next request got %d %q", r.StatusCode, body)
	}
}

// TestCorpusExact looks closer at cases whose right result is more than a status.
func TestCorpusExact(t *testing.T) {
	corpus := loadCorpus(t)
	up := serve(t, (&recorder{responses: corpus.Responses}).serve)
	g := start(t, nil)
	g.put("routes/1", route("/*", up.addr, ""))

	c := g.dial()
	c.send("GET / HTTP/1.1\r\nHost: a.test\r\nX-Mode: r103\r\n\r\n")
	if r, err := http.ReadResponse(c.r, nil); err != nil || r.StatusCode != 103 || r.Header.Get("Link") != "</a.css>" {
		t.Errorf("103 was not relayed: %v %v", r, err)
	}
	if r, b := c.answer("GET"); r.StatusCode != 200 || b != "ok" {
		t.Errorf("after 103: %d %q", r.StatusCode, b)
	}

	c = g.dial()
	c.send("GET / HTTP/1.1\r\nHost: a.test\r\nX-Mode: trunc\r\n\r\n")
	r, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a truncated answer was passed as whole: %q %v", b, err)
	}

	c = g.dial()
	c.send("GET / HTTP/1.1\r\nHost: a.test\r\nX-Mode: dup\r\n\r\n")
	head, err := readHead(c.r)
	if err != nil {
		t.Fatal(err)
	}
	want := "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nset-cookie: a=3\r\nVia: 1.1 x\r\nvia: 1.1 y\r\nx-lOwEr: Q\r\n"
	if !strings.Contains(head, want) {
		t.Errorf("order, case or repetition of response headers changed:\n%s", head)
	}
}

func readHead(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		l, err := r.ReadString('\n')
		b.WriteString(l)
		if err != nil || l == "\r\n" {
			return b.String(), err
		}
	}
}
