package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/internal/bench/reference"
)

// ask asks questions and compares the answers with the model's.
func (s *soaking) ask(ctx context.Context, client uint64, began, end time.Time) {
	rng := rand.New(rand.NewPCG(s.opts.seed, 100+client))
	every := float64(s.opts.clients) / s.opts.rps * 1e9
	for n := 1; sleepUntil(ctx, began.Add(time.Duration(float64(n)*every))) && time.Now().Before(end); n++ {
		since, world := s.history.Now()
		q := s.gen.Ask(rng, world)
		got, err := s.answer(ctx, q)
		if ctx.Err() != nil {
			return
		}
		s.note(q, got, err)
		if err != nil {
			continue
		}
		if ok, want := s.history.Allows(since, q, got); !ok {
			s.differs("%v: answered %v, want %v", q, got, want)
		}
	}
}

// note counts an answer, or that there was none.
func (s *soaking) note(q reference.Question, got reference.Answer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Requests++
	if err != nil {
		s.report.Errors++
		s.example("%v: %v", q, err)
		return
	}
	what := reference.Kind(q.Object)
	switch {
	case q.Stored:
		what = "stored"
	case got.Field != "":
		what = "calls"
	}
	s.report.Answers[fmt.Sprint(what, " ", got.Status)]++
}

// answer is what the gateway says to a question.
func (s *soaking) answer(ctx context.Context, q reference.Question) (reference.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	switch kind := reference.Kind(q.Object); {
	case q.Stored:
		got, err := s.admin.ask(ctx, http.MethodGet, q.Object, "")
		return reference.Answer{Status: got.status}, err
	case kind == "ssls":
		return s.handshake(ctx, q)
	case kind == "stream_routes":
		return s.connect(ctx, s.gen.Port(q.Object))
	}
	req, err := s.request(ctx, q)
	if err != nil {
		return reference.Answer{}, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return reference.Answer{}, err
	}
	defer resp.Body.Close()
	return readAnswer(resp)
}

func (s *soaking) request(ctx context.Context, q reference.Question) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.m.dataAddr()+reference.Path(q.Route), nil)
	if err == nil && q.APIKey != "" {
		req.Header.Set("apikey", q.APIKey)
	}
	return req, err
}

// handshake sends a request by TLS on a connection of its own. No answer is what there
// is without a certificate.
func (s *soaking) handshake(ctx context.Context, q reference.Question) (reference.Answer, error) {
	nc, err := s.dial(ctx, s.tls)
	if err != nil {
		return reference.Answer{}, err
	}
	defer nc.Close()
	conn := tls.Client(nc, &tls.Config{ServerName: reference.SNI(q.Object), InsecureSkipVerify: true})
	if err := conn.HandshakeContext(ctx); err != nil {
		if alert := (*net.OpError)(nil); errors.As(err, &alert) && alert.Op == "remote error" {
			err = nil
		}
		return reference.Answer{}, err
	}
	req, err := s.request(ctx, q)
	if err != nil {
		return reference.Answer{}, err
	}
	a, err := exchange(conn, req)
	if err != nil {
		return a, err
	}
	a.Certificate, err = strconv.Atoi(conn.ConnectionState().PeerCertificates[0].Subject.CommonName)
	return a, err
}

// connect sends a request to the port of a stream route, which leads to an origin. A
// connection that is closed is no answer.
func (s *soaking) connect(ctx context.Context, port int) (reference.Answer, error) {
	nc, err := s.dial(ctx, port)
	if err != nil {
		return reference.Answer{}, err
	}
	defer nc.Close()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://soak.test/", nil)
	if err != nil {
		return reference.Answer{}, err
	}
	a, err := exchange(nc, req)
	if late := net.Error(nil); err != nil && !(errors.As(err, &late) && late.Timeout()) {
		return reference.Answer{}, nil
	}
	return a, err
}

func (s *soaking) dial(ctx context.Context, port int) (net.Conn, error) {
	nc, err := tcpDialer(fmt.Sprintf("127.0.0.1:%d", port))(ctx)
	if err != nil {
		return nil, err
	}
	until, _ := ctx.Deadline()
	return nc, nc.SetDeadline(until)
}

// exchange sends a request and reads the answer.
func exchange(nc net.Conn, req *http.Request) (reference.Answer, error) {
	if err := req.Write(nc); err != nil {
		return reference.Answer{}, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(nc), req)
	if err != nil {
		return reference.Answer{}, err
	}
	defer resp.Body.Close()
	return readAnswer(resp)
}

func readAnswer(resp *http.Response) (a reference.Answer, err error) {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err
	}
	a = reference.Answer{Status: resp.StatusCode, Mark: resp.Header.Get(reference.MarkHeader), Globals: map[string]string{}}
	a.Node, _ = strconv.Atoi(resp.Header.Get(reference.NodeHeader)) // none is node 0
	if resp.Header.Get(reference.DefaultLimitHeader) != "" {
		a.Limit = reference.DefaultLimitHeader
	}
	for name := range resp.Header {
		switch {
		case strings.HasPrefix(name, "X-Soak-Global-"):
			a.Globals[name] = resp.Header.Get(name)
		case strings.HasPrefix(name, "X-Soak-Limit-"):
			a.Limit += name
		}
	}
	// A call's answer has one member, the origin's name.
	var members map[string]string
	if a.Status == 200 && len(body) > 0 {
		if err := json.Unmarshal(body, &members); err != nil {
			return a, fmt.Errorf("%.200q: %w", body, err)
		}
	}
	for name, node := range members {
		a.Field += name
		if node != strconv.Itoa(a.Node) {
			return a, fmt.Errorf("node %d answered %.200q", a.Node, body)
		}
	}
	return a, nil
}
