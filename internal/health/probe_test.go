package health

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// asked is what a server saw.
type asked struct{ line, host, sni, header, body string }

func server(t testing.TB, secure bool) (addr netip.AddrPort, roots *x509.CertPool, got chan asked) {
	t.Helper()
	got = make(chan asked, 100)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := asked{line: r.Method + " " + r.RequestURI, host: r.Host, header: r.Header.Get("X-A"), body: ""}
		if r.TLS != nil {
			a.sni = r.TLS.ServerName
		}
		b := make([]byte, 100)
		n, _ := r.Body.Read(b)
		a.body = string(b[:n])
		got <- a
		w.WriteHeader(204)
	}))
	if secure {
		s.StartTLS()
		roots = x509.NewCertPool()
		roots.AddCert(s.Certificate())
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String()), roots, got
}

func TestProbe(t *testing.T) {
	plain, _, plainGot := server(t, false)
	secure, roots, secureGot := server(t, true)
	for _, tc := range []struct {
		name, doc, host string
		secure          bool
		want            asked
		fails           bool
	}{
		{name: "address", doc: `{}`, want: asked{line: "GET /", host: "127.0.0.1"}},
		{name: "name", doc: `{"http_path":"/h?a=b"}`, host: "n.test:81", want: asked{line: "GET /h?a=b", host: "n.test:81"}},
		{name: "host", doc: `{"host":"h.test"}`, host: "n.test", want: asked{line: "GET /", host: "h.test"}},
		{
			name: "request", doc: `{"http_method":"POST","http_req_body":"text","req_headers":["X-A: 1","X-B: 2\r\nX-C: 3"]}`,
			want: asked{line: "POST /", host: "127.0.0.1", header: "1", body: "text"},
		},
		{name: "TLS", doc: `{"type":"https"}`, secure: true, host: "example.com:443", want: asked{line: "GET /", host: "example.com:443", sni: "example.com"}},
		{name: "TLS, address", doc: `{"type":"https"}`, secure: true, want: asked{line: "GET /", host: "127.0.0.1"}},
		{name: "TLS, wrong name", doc: `{"type":"https"}`, secure: true, host: "other.test", fails: true},
		{
			name: "TLS, not verified", doc: `{"type":"https","https_verify_certificate":false}`, secure: true, host: "other.test",
			want: asked{line: "GET /", host: "other.test", sni: "other.test"},
		},
		{name: "plain to TLS", doc: `{"type":"https"}`, fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checks := parsed(t, `{"active":`+tc.doc+`}`)
			checks.Active.Timeout = 10 * time.Second
			checks.Active.Healthy = Rule{Statuses: statuses([]int{204}), Successes: 1}
			checks.Active.Unhealthy.TCP = 1
			at, got := plain, plainGot
			if tc.secure {
				at, got = secure, secureGot
			}
			c := New(Config{TLS: func() *tls.Config { return &tls.Config{RootCAs: roots} }}, checks)
			defer c.Close()
			x := c.Set([]Address{{Addr: at, Name: tc.host}})[0]
			x.succeed(1)
			x.status.Store(uint32(MostlyHealthy))
			c.ask(t.Context(), x, checks)
			if tc.fails {
				if x.Healthy() {
					t.Fatalf("%+v", c.Nodes())
				}
				return
			}
			if x.Status() != Healthy {
				t.Fatalf("%+v", c.Nodes())
			}
			if a := <-got; a != tc.want {
				t.Fatalf("got %+v, want %+v", a, tc.want)
			}
		})
	}
}

func TestIPv6Host(t *testing.T) {
	x := &Target{Address: Address{Addr: netip.MustParseAddrPort("[::1]:80")}}
	if h := x.host(&Active{}); h != "[::1]" || hostOnly(h) != "::1" {
		t.Error(h, hostOnly(h))
	}
	if b := string(request(x, &Active{Method: "GET", Path: "/"})); !strings.Contains(b, "\r\nHost: [::1]\r\n") {
		t.Error(b)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"active":{"type":"tcp","healthy":{"interval":1,"http_statuses":[200]}},"passive":{"unhealthy":{"timeouts":3}}}`))
	f.Add([]byte(`{"active":{"timeout":1e300,"concurrency":-1,"port":1e9}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if c, err := Parse(doc); err == nil && (c.Active.Concurrency < 1 || c.Active.Interval.Healthy < time.Second) {
			t.Errorf("%+v", c)
		}
	})
}
