package forwardauth

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/wire"
)

// maxAnswer bounds what a refusal carries to the client, in bytes.
const maxAnswer = 8 << 20

// A service is the authorization service as one configuration asks it.
type service struct {
	*Config
	client  http.Client
	timeout time.Duration

	host, uri expr.Var
	extra     []extra
	ask       []string // names of request headers to send
	upstream  []string // names of answer headers to send upstream
	toClient  []string // names of answer headers to send with a refusal
}

type extra struct {
	name  string
	value *expr.Template
}

func newService(c *Config) (*service, error) {
	target, err := url.Parse(c.URI)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		return nil, errors.New("invalid uri: it is no URL of http or https") // it may hold a password
	}
	s := &service{
		Config:   c,
		timeout:  schema.Milliseconds(c.Timeout),
		ask:      withoutHop(c.RequestHeaders),
		upstream: slices.DeleteFunc(withoutHop(c.UpstreamHeaders), isHost),
		toClient: withoutHop(c.ClientHeaders),
	}
	s.client = http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: s.timeout}).DialContext,
			TLSClientConfig:     &tls.Config{InsecureSkipVerify: !c.SSLVerify}, // the operator's choice
			DisableCompression:  true,
			DisableKeepAlives:   !c.Keepalive,
			MaxIdleConnsPerHost: c.KeepalivePool,
			IdleConnTimeout:     schema.Milliseconds(c.KeepaliveTimeout),
		},
	}
	for _, name := range withoutHop(slices.Sorted(maps.Keys(c.ExtraHeaders))) {
		if strings.Trim(name, tokenBytes) != "" {
			return nil, fmt.Errorf("invalid extra_headers: %q is no name of a header", name)
		}
		value, err := expr.Parse(c.ExtraHeaders[name])
		if err != nil {
			return nil, fmt.Errorf("invalid extra_headers: %s: %w", name, err)
		}
		s.extra = append(s.extra, extra{name, value})
	}
	if s.host, err = expr.Lookup("host"); err != nil {
		return nil, err
	}
	s.uri, err = expr.Lookup("request_uri")
	return s, err
}

// withoutHop leaves out the names of headers that belong to one connection
// (RFC 9110 §7.6.1) or frame a body: each side has its own.
func withoutHop(names []string) (kept []string) {
	for _, name := range names {
		switch strings.ToLower(name) {
		case "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "te", "trailer", "upgrade",
			"transfer-encoding", "content-length", "expect":
		default:
			kept = append(kept, name)
		}
	}
	return kept
}

// tokenBytes are what names of headers consist of (RFC 9110 §5.6.2).
const tokenBytes = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// isText says whether a header can have that value.
func isText(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

func isHost(name string) bool { return strings.EqualFold(name, "host") }

// An answer is the service's.
type answer struct {
	status int
	header http.Header
	body   []byte // of a refusal
}

// An outage says that the service did not answer. No other error is one: what a
// client can bring about must not open the door that AllowDegradation opens.
type outage struct{ err error }

func (o outage) Error() string { return o.err.Error() }

// query asks the service about a request. It takes no longer than the timeout,
// and as long as the client takes to send its body.
func (s *service) query(ctx context.Context, r *plugin.Ctx) (answer, error) {
	var body []byte
	if s.RequestMethod == http.MethodPost {
		var err error
		if body, err = r.Buffer.Body(s.MaxReqBodySize); err != nil {
			return answer{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, s.RequestMethod, s.URI, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if err := s.describe(r, q); err != nil {
		return answer{}, err
	}
	resp, err := s.client.Do(q)
	if err != nil {
		return answer{}, outage{plugin.Bare(err)}
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	for _, list := range a.header.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			a.header.Del(strings.Trim(name, " \t"))
		}
	}
	if a.status < 200 {
		return answer{}, fmt.Errorf("unexpected status %d", a.status)
	}
	if a.status < 300 {
		// What is left unread would cost the connection; a long text is not worth it.
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
		return a, nil
	}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(a.body) > maxAnswer {
		err = errors.New("the answer is too long")
	}
	return a, err
}

// describe fills in the headers of the question. What the client sends counts
// least.
func (s *service) describe(r *plugin.Ctx, q *http.Request) (err error) {
	set := func(name, value string) {
		if !isText(value) {
			err = fmt.Errorf("invalid value of header %s", name)
			return
		}
		if isHost(name) {
			q.Host = value
		}
		q.Header.Set(name, value)
	}
	var host, uri [256]byte
	h, _ := s.host.Append(host[:0], r)
	u, _ := s.uri.Append(uri[:0], r)
	set("X-Forwarded-Proto", r.Scheme)
	set("X-Forwarded-Method", r.Request.Method)
	set("X-Forwarded-Host", string(h))
	set("X-Forwarded-Uri", string(wire.EscapeControls(nil, string(u))))
	set("X-Forwarded-For", r.Client)
	if coding, ok := r.Header("Content-Encoding"); ok && s.RequestMethod == http.MethodPost {
		set("Content-Encoding", coding)
	}
	for _, e := range s.extra {
		set(e.name, e.value.Value(r))
	}
	for _, name := range s.ask {
		if _, taken := q.Header[http.CanonicalHeaderKey(name)]; taken {
			continue
		}
		if value, ok := r.Header(name); ok {
			set(name, value)
		}
	}
	if _, taken := q.Header["User-Agent"]; !taken {
		set("User-Agent", "Weir")
	}
	return err
}

// refusal passes the service's answer on to the client.
func (s *service) refusal(a answer) *plugin.Reply {
	reply := &plugin.Reply{Status: a.status, Body: a.body}
	for _, name := range s.toClient {
		for _, value := range a.header.Values(name) {
			reply.Header = append(reply.Header, [2]string{name, value})
		}
	}
	return reply
}

// tell gives the upstream the headers of the service's answer, and only those,
// under the names meant for them. Without an answer there are none.
func (s *service) tell(r *plugin.Ctx, header http.Header) {
	for _, name := range s.upstream {
		r.ClearHeader(name)
		for _, value := range header.Values(name) {
			r.Request.Header.Add(name, value)
		}
	}
}
