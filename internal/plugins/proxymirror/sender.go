package proxymirror

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/monotonic"
)

// timeouts are how long the mirror may take to connect, to take the copy and to
// answer.
type timeouts struct{ connect, read, send time.Duration }

// maxSending is how many copies may be on their way at a time, of all routes
// together: a mirror that is slow must not cost the memory.
const maxSending = 1024

type transport = *http.Transport

// A sender sends the copies of all configurations.
type sender struct {
	ctx        context.Context
	cancel     context.CancelFunc
	times      timeouts
	log        *slog.Logger
	transports map[string]transport // by scheme

	now     atomic.Int64 // copies on their way
	lost    atomic.Int64
	said    monotonic.Seldom // that copies are lost
	sending sync.WaitGroup
}

func newSender(log *slog.Logger, t timeouts) *sender {
	s := &sender{log: log, times: t, transports: map[string]transport{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, scheme := range []string{"http", "https", "grpc", "grpcs"} {
		p := new(http.Protocols)
		p.SetHTTP1(!strings.HasPrefix(scheme, "grpc"))
		p.SetHTTP2(scheme == "grpcs")
		p.SetUnencryptedHTTP2(scheme == "grpc")
		s.transports[scheme] = &http.Transport{
			Protocols:             p,
			DialContext:           (&net.Dialer{Timeout: t.connect}).DialContext,
			TLSHandshakeTimeout:   t.connect,
			ResponseHeaderTimeout: t.read,
			TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, // as to upstreams
			DisableCompression:    true,
			MaxIdleConns:          256,
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       time.Minute,
		}
	}
	return s
}

// drain is how long Close waits for what is on its way.
const drain = time.Second

// Close ends the sender.
func (s *sender) Close() {
	t := time.AfterFunc(drain, s.cancel)
	s.sending.Wait()
	t.Stop()
	s.cancel()
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
}

// A sending is one copy.
type sending struct {
	target  string
	length  int64  // of the body, or wire.Chunked
	body    *queue // nil: none
	started bool
}

// send sends a copy in the background, or drops it if too many are on their way.
func (s *sender) send(m *mirror, x *sending, h head) {
	if s.now.Add(1) > maxSending {
		s.now.Add(-1)
		x.drop()
		s.report(errBusy)
		return
	}
	s.sending.Go(func() {
		defer s.now.Add(-1)
		if err := s.exchange(m, x, h); err != nil {
			s.report(err)
		}
		x.drop()
	})
}

var errBusy = errors.New("too many copies are on their way")

func (s *sender) exchange(m *mirror, x *sending, h head) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.times.connect+s.times.send+s.times.read)
	defer cancel()
	req := (&http.Request{
		Method: h.method, Host: h.host, URL: at(m.url, x.target), Header: http.Header{"User-Agent": nil},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	for _, f := range h.fields {
		req.Header.Add(f[0], f[1])
	}
	if x.body != nil && x.length != 0 {
		req.Body, req.ContentLength = x.body, x.length
	}
	res, err := m.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	// What is read lets the connection be used again.
	_, err = io.CopyN(io.Discard, res.Body, 1<<20)
	if err == io.EOF {
		err = nil
	}
	return err
}

// at is the URL of a target, which is sent as it is.
func at(server url.URL, target string) *url.URL {
	if !strings.HasPrefix(target, "//") {
		server.Opaque = target
		return &server
	}
	// Such an opaque part would be taken for an authority.
	server.RawPath, server.RawQuery, _ = strings.Cut(target, "?")
	server.Path = server.RawPath
	if path, err := url.PathUnescape(server.RawPath); err == nil {
		server.Path = path
	}
	return &server
}

// report says once a second that copies are lost.
func (s *sender) report(err error) {
	lost := s.lost.Add(1)
	if s.said.Ready(time.Now()) {
		s.log.Warn("a mirrored request was lost", "lost_so_far", lost, "err", err)
	}
}

// drop ends the interest in the body.
func (x *sending) drop() {
	if x.body != nil {
		_ = x.body.Close()
	}
}

// maxQueue is how much of a body may wait for a mirror that takes it slower than
// the client sends it.
const maxQueue = 1 << 20

// A queue is a body on its way from the request to its copy. What the request
// reads is put in without waiting.
type queue struct {
	mu     sync.Mutex
	come   sync.Cond
	buf    []byte
	read   int // bytes of buf that were read
	total  int64
	err    error // after buf
	closed bool
}

func newQueue() *queue {
	q := new(queue)
	q.come.L = &q.mu
	return q
}

var (
	errSlow = errors.New("the mirror takes the body slower than the client sends it")
	errCut  = errors.New("the request's body did not come whole")
)

// See implements plugin.BodyTap.
func (q *queue) See(piece []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total += int64(len(piece))
	switch {
	case q.closed || q.err != nil:
		return
	case len(q.buf)-q.read+len(piece) > maxQueue:
		q.buf, q.read, q.err = nil, 0, errSlow
	default:
		if q.read > len(q.buf)/2 {
			q.buf, q.read = q.buf[:copy(q.buf, q.buf[q.read:])], 0
		}
		q.buf = append(q.buf, piece...)
	}
	q.come.Signal()
}

// end says that nothing more comes. A body of known length is whole when it is
// all there, another if the request was answered.
func (q *queue) end(answered bool, length int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = io.EOF
		if length >= 0 && q.total < length || length < 0 && !answered {
			q.err = errCut
		}
	}
	q.come.Signal()
}

// Read implements io.Reader for the copy.
func (q *queue) Read(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.buf) == q.read && q.err == nil && !q.closed {
		q.come.Wait()
	}
	switch {
	case q.closed:
		return 0, net.ErrClosed
	case len(q.buf) == q.read:
		return 0, q.err
	}
	n := copy(p, q.buf[q.read:])
	q.read += n
	return n, nil
}

// Close implements io.Closer for the copy.
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.buf, q.read = true, nil, 0
	q.come.Signal()
	return nil
}

// A nginxTime is a duration as nginx writes it: "60s", "500ms", 60 (seconds).
type nginxTime time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (t *nginxTime) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
	}
	for _, u := range [...]struct {
		suffix string
		unit   time.Duration
	}{{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"", time.Second}} {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			break
		}
		*t = nginxTime(time.Duration(n) * u.unit)
		return nil
	}
	return fmt.Errorf("timeout: %q is not a time", text)
}

func (t nginxTime) or60s() time.Duration {
	if t == 0 {
		return time.Minute
	}
	return time.Duration(t)
}
