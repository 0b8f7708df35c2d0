package threescale

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"weir/internal/cache"
	"weir/internal/meter"
	"weir/internal/model"
)

// Settings are what the environment variables of APIcast say for all products
// (apicast.md §9).
type Settings struct {
	BackendOverride  string // BACKEND_ENDPOINT_OVERRIDE
	Resilient        bool   // APICAST_BACKEND_CACHE_HANDLER=resilient
	ReportingThreads int    // APICAST_REPORTING_THREADS
	ResponseCodes    bool   // APICAST_RESPONSE_CODES
	PathRouting      bool   // APICAST_PATH_ROUTING
	PathRoutingOnly  bool   // APICAST_PATH_ROUTING_ONLY
	VerifyTLS        bool   // OPENSSL_VERIFY
	ExtendedMetrics  bool   // APICAST_EXTENDED_METRICS
	RetryCases       string // APICAST_UPSTREAM_RETRY_CASES
	UserAgent        string
	Environment      string // THREESCALE_DEPLOYMENT_ENV

	CacheStatusCodes []int         // APICAST_CACHE_STATUS_CODES
	CacheMaxTime     time.Duration // APICAST_CACHE_MAX_TIME

	UpstreamHead int // bytes of a response's head: APICAST_PROXY_BUFFER_SIZE; 0: the gateway's limit

	// The forward proxies of the environment; NoProxy are the hosts that are
	// reached without.
	HTTPProxy, HTTPSProxy, AllProxy, NoProxy string

	// BatchRoom is the memory of what 3scale_batcher gathers, in bytes; 0: 20 MiB
	// (APICAST_POLICY_BATCHER_SHARED_MEMORY_SIZE).
	BatchRoom int64

	// The gateway's own certificate for upstreams, as PEM.
	Certificate, CertificateKey string
}

// A Runtime is what all products of a process share. Make it with NewRuntime.
type Runtime struct {
	Settings
	Log   *slog.Logger
	Meter *meter.Registry
	Now   func() time.Time

	// UnknownKey is told that a token of an issuer names a key that is not there:
	// the issuer may have new ones. It does not block; nil: nobody wants to know.
	UnknownKey func(issuer string)

	// Discover asks an issuer, by its URL, for its configuration and keys (OpenID
	// Connect Discovery). It may take seconds; nil: it cannot be done.
	Discover func(ctx context.Context, issuer string) (*model.OIDC, error)

	// Transport carries the calls that policies make to services of their own
	// (token introspection, OCSP). NewRuntime makes one.
	Transport http.RoundTripper

	// TLS is what the gateway's own handshakes with clients use; nil: there are
	// none. It is set before the first product is compiled.
	TLS *tls.Config

	issuers atomic.Uint64        // that were compiled
	tokens  *cache.Cache[*Token] // that were verified, by issuer

	// Manage answers the management API (apicast.md §7) in a mode, an empty one
	// being the process's; nil: there is no such API. It is set before the first
	// request.
	Manage func(ctx context.Context, mode, method, path string, body func(limit int64) ([]byte, error)) Managed

	proxies *Proxies       // of the environment
	retryOn *model.RetryOn // nil: nginx's default

	accounts
}

// tokenRoom bounds what verified tokens take, in bytes: about 10,000 of them.
const tokenRoom = 128 << 20

// NewRuntime makes the runtime of a process; Close ends it.
func NewRuntime(s Settings, log *slog.Logger, m *meter.Registry, now func() time.Time) *Runtime {
	rt := &Runtime{Settings: s, Log: log, Meter: m, Now: now, tokens: cache.New[*Token](tokenRoom, now)}
	rt.accounts.open(rt)
	rt.retryOn = retryCases(s.RetryCases, log)
	var err error
	if rt.proxies, err = NewProxies(s.HTTPProxy, s.HTTPSProxy, s.AllProxy); err != nil {
		log.Warn("a forward proxy of the environment cannot be used", "err", err)
	}
	rt.Transport = rt.transport()
	return rt
}

// Close sends what is waiting to be reported, as far as the backend takes it soon,
// and ends what runs in the background.
func (rt *Runtime) Close() {
	rt.accounts.close()
	if t, ok := rt.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
