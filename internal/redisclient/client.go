package redisclient

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/plugin"
	"weir/internal/schema"
)

// A Client talks to one Redis, cluster or set of sentinels. Any number of
// goroutines may use it.
type Client struct {
	rdb     redis.UniversalClient
	timeout time.Duration // of one call, connecting included
	log     func(msg string, args ...any)

	jobs   chan Job
	begin  sync.Once
	worker sync.WaitGroup
}

// Open returns the client for what a plugin's configuration says; equal ones
// share it. It lives as long as the configuration and does not connect before
// it is used. s is nil where the plugin knows no sentinels.
func Open(env plugin.Env, policy string, c *Config, s *SentinelConfig) *Client {
	place, err := json.Marshal([]any{policy, c, s})
	if err != nil {
		panic(err) // plain data
	}
	sum := sha256.Sum256(place) // it has passwords
	return plugin.Keep(env, "redis "+hex.EncodeToString(sum[:]), func() *Client {
		quiet()
		client := &Client{jobs: make(chan Job, 4096), log: env.Log.Error}
		switch policy {
		case Cluster:
			client.openCluster(c)
		case Sentinel:
			client.openSentinel(c, s)
		default:
			client.openSingle(c)
		}
		return client
	})
}

// quiet keeps the library from writing to the standard error; what fails is
// returned all the same.
var quiet = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// busiest is how many connections one client may open: requests above that
// wait for one that is free.
const busiest = 256

// A command is never sent twice: that would count twice.
const once = -1

func (client *Client) openSingle(c *Config) {
	client.timeout = schema.Milliseconds(c.Timeout)
	user, password := account(c.Username, c.Password)
	client.rdb = redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort(c.Host, strconv.Itoa(c.Port)), Username: user, Password: password, DB: c.Database,
		TLSConfig: tlsConfig(c.TLS, c.Verify, c.Host), Protocol: 2, DisableIdentity: true, MaxRetries: once,
		DialTimeout: client.timeout, ReadTimeout: client.timeout, WriteTimeout: client.timeout, PoolTimeout: client.timeout,
		ContextTimeoutEnabled: true, PoolSize: max(busiest, c.KeepalivePool),
		MaxIdleConns: c.KeepalivePool, ConnMaxIdleTime: schema.Milliseconds(c.KeepaliveTimeout),
	})
}

func (client *Client) openCluster(c *Config) {
	client.timeout = schema.Milliseconds(c.Timeout)
	_, password := account("", c.Password)
	client.rdb = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: withPort(c.ClusterNodes), Password: password,
		TLSConfig: tlsConfig(c.ClusterTLS, c.ClusterVerify, ""), Protocol: 2, DisableIdentity: true, MaxRetries: once,
		DialTimeout: client.timeout, ReadTimeout: client.timeout, WriteTimeout: client.timeout, PoolTimeout: client.timeout,
		ContextTimeoutEnabled: true, PoolSize: max(busiest, c.KeepalivePool),
		MaxIdleConns: c.KeepalivePool, ConnMaxIdleTime: schema.Milliseconds(c.KeepaliveTimeout),
	})
}

func (client *Client) openSentinel(c *Config, s *SentinelConfig) {
	connect, read := schema.Milliseconds(s.ConnectTimeout), schema.Milliseconds(s.ReadTimeout)
	client.timeout = connect + read
	addrs := make([]string, len(s.Sentinels))
	for i, a := range s.Sentinels {
		addrs[i] = net.JoinHostPort(a.Host, strconv.Itoa(a.Port))
	}
	user, password := account(c.Username, c.Password)
	client.rdb = redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: s.MasterName, SentinelAddrs: addrs,
		SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword, ReplicaOnly: s.Role == "slave",
		Username: user, Password: password, DB: c.Database,
		Protocol: 2, DisableIdentity: true, MaxRetries: once,
		DialTimeout: connect, ReadTimeout: read, WriteTimeout: read, PoolTimeout: read,
		ContextTimeoutEnabled: true, PoolSize: busiest, ConnMaxIdleTime: schema.Milliseconds(c.KeepaliveTimeout),
	})
}

// account is who logs in: without a password, nobody does.
func account(user, password string) (string, string) {
	if password == "" {
		return "", ""
	}
	return user, password
}

func tlsConfig(on, verify bool, host string) *tls.Config {
	if !on {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, InsecureSkipVerify: !verify}
}

// withPort gives addresses without a port the usual one.
func withPort(addrs []string) []string {
	out := make([]string, len(addrs))
	for i, a := range addrs {
		if out[i] = a; !strings.Contains(a[strings.LastIndexByte(a, ']')+1:], ":") {
			out[i] = a + ":6379"
		}
	}
	return out
}

// Close ends the client once what Later was given is done, or its time over.
func (client *Client) Close() {
	close(client.jobs)
	client.worker.Wait()
	_ = client.rdb.Close() // there is nobody to tell
}

// A Script runs in Redis, on one key, or several of a single Redis.
type Script struct{ *redis.Script }

// NewScript makes a Script of Lua source.
func NewScript(source string) Script { return Script{redis.NewScript(source)} }

// A Call is one run of a script.
type Call struct {
	Script Script
	Key    string
	More   []string // keys after Key; none in a cluster
	Args   []any
}

func (c *Call) keys() []string { return append([]string{c.Key}, c.More...) }

// Run runs a script and returns the list of integers that it returns. It takes
// no longer than twice the timeouts that are configured.
func (client *Client) Run(c Call) ([]int64, error) {
	ctx, cancel := client.within()
	defer cancel()
	return integers(c.Script.Run(ctx, client.rdb, c.keys(), c.Args...))
}

func (client *Client) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*client.timeout)
}

// A Result is what a call returned.
type Result struct {
	Values []int64
	Err    error
}

// RunAll runs calls in one go and returns their results in the same order.
func (client *Client) RunAll(calls []Call) []Result {
	ctx, cancel := client.within()
	defer cancel()
	results := make([]Result, len(calls))
	cmds := make([]*redis.Cmd, len(calls))
	pipe := client.rdb.Pipeline()
	for i, c := range calls {
		cmds[i] = c.Script.EvalSha(ctx, pipe, c.keys(), c.Args...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, c := range calls {
		if redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT") {
			cmds[i] = c.Script.Eval(ctx, client.rdb, c.keys(), c.Args...)
		}
		results[i].Values, results[i].Err = integers(cmds[i])
	}
	return results
}

func integers(cmd *redis.Cmd) ([]int64, error) {
	values, err := cmd.Int64Slice()
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return values, nil
}

// A Job is a call that nobody waits for.
type Job Call

// Later runs a job soon, together with others. It does not block: false says
// that too many wait already.
func (client *Client) Later(j Job) bool {
	client.begin.Do(func() { client.worker.Go(client.work) })
	select {
	case client.jobs <- j:
		return true
	default:
		return false
	}
}

// work runs jobs until there can be no more.
func (client *Client) work() {
	const together = 128
	batch := make([]Call, 0, together)
	for j := range client.jobs {
		batch = append(batch[:0], Call(j))
		for more := true; more && len(batch) < together; {
			select {
			case next, open := <-client.jobs:
				if more = open; open {
					batch = append(batch, Call(next))
				}
			default:
				more = false
			}
		}
		for _, r := range client.RunAll(batch) {
			if r.Err != nil {
				client.log("redis did not do what was left for later", "err", r.Err)
				break
			}
		}
	}
}
