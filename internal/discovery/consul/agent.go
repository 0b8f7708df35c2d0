package consul

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/discovery"
	"weir/internal/schema"
)

// maxBlocking is how many queries block at a time. Consul refuses more than 200
// connections from one address (http_max_conns_per_client); services beyond
// that many are asked for every fetch_interval instead.
const maxBlocking = 128

// leastPause is the least time between two answers about a service: what
// changes faster is taken together by Consul.
const leastPause = 50 * time.Millisecond

// An Agent asks Consul.
type Agent struct {
	env      discovery.Env
	client   *discovery.Client
	token    string
	blocking bool
	wait     time.Duration // that a blocking query may take
	answer   time.Duration // that any other may take
	interval time.Duration // between queries that do not block

	waiting atomic.Int64 // blocking queries
}

// NewAgent checks the settings and makes an Agent; Close frees its connections.
func NewAgent(s *Settings, env discovery.Env) (*Agent, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return &Agent{
		env: env.Filled(),
		client: discovery.NewClient(discovery.ClientOptions{
			Connect: schema.Milliseconds(s.Timeout.Connect), AtOnce: 0,
		}),
		token:    s.Token,
		blocking: s.Keepalive,
		wait:     schema.Seconds(s.Timeout.Wait),
		answer:   schema.Milliseconds(s.Timeout.Connect) + schema.Milliseconds(s.Timeout.Read),
		interval: schema.Seconds(s.FetchInterval),
	}, nil
}

// Close frees what is left.
func (a *Agent) Close() { a.client.Close() }

// A Query is asked again and again.
type Query struct {
	Server string // http://address:port
	Path   string // escaped, from /v1 on
	Args   url.Values

	// Missing says that 404 is an answer: there is nothing.
	Missing bool

	// Read takes an answer that may be new; nil: there is nothing. Its error is a
	// failure of the query.
	Read func(answer json.RawMessage) error

	// Fail is told that asking failed.
	Fail func(error)
}

// Watch asks q until ctx ends, by blocking queries if it can.
func (a *Agent) Watch(ctx context.Context, q Query) {
	pace := discovery.NewPace(a.env)
	var index uint64
	for {
		began := time.Now()
		next, err := a.ask(ctx, &q, index)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			index = 0
			q.Fail(err)
			if !pace.Failed(ctx) {
				return
			}
			continue
		}
		pause := leastPause
		if !a.blocking || next == 0 || next == index && time.Since(began) < a.interval {
			// Consul does not block, or not on this.
			pause = a.interval
		}
		// An index that goes backwards begins anew, as Consul's documentation asks.
		if index = next; next < index {
			index = 0
		}
		if !pace.Next(ctx, pause) {
			return
		}
	}
}

// ask sends q once; it returns Consul's index for the next time, 0 if that is
// not to block.
func (a *Agent) ask(ctx context.Context, q *Query, index uint64) (uint64, error) {
	args, timeout := url.Values{}, a.answer
	for k, v := range q.Args {
		args[k] = v
	}
	if a.blocking && index > 0 {
		defer a.waiting.Add(-1)
		if a.waiting.Add(1) <= maxBlocking {
			args.Set("index", strconv.FormatUint(index, 10))
			args.Set("wait", strconv.Itoa(int(a.wait/time.Second))+"s")
			timeout += a.wait + a.wait/16 // Consul adds as much at random
		}
	}
	r, err := http.NewRequest(http.MethodGet, q.Server+q.Path, nil)
	if err != nil {
		return 0, err
	}
	r.URL.RawQuery = args.Encode()
	r.Header.Set("Accept", "application/json")
	if a.token != "" {
		r.Header.Set("X-Consul-Token", a.token)
	}
	var answer json.RawMessage
	header, err := a.client.JSON(ctx, r, timeout, &answer)
	var status *discovery.StatusError
	if q.Missing && errors.As(err, &status) && status.Status == http.StatusNotFound {
		header, answer, err = status.Header, nil, nil
	}
	if err != nil {
		return 0, err
	}
	next, _ := strconv.ParseUint(header.Get("X-Consul-Index"), 10, 64) // 0 if it is missing
	if next != 0 && next == index {
		return next, nil
	}
	return next, q.Read(answer)
}
