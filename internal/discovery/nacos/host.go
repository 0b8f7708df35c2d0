package nacos

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/discovery"
	"weir/internal/schema"
)

// hosts are the servers of one Nacos; the one that answered last is asked first.
type hosts struct {
	list  []*host
	first atomic.Int64
}

func (h *hosts) prefer(i int) { h.first.Store(int64(i)) }

// A host is one server.
type host struct {
	base           string // with the prefix, ends in /
	user, password string

	mu    sync.Mutex // held while logging in: one login serves all who wait
	token string
	until time.Time // when a new token is needed
}

// newHost reads http://user:password@address. The password may have any
// characters, so the last @ ends it.
func newHost(address, prefix string) *host {
	h := &host{}
	scheme, rest, _ := strings.Cut(address, "://")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		h.user, h.password, _ = strings.Cut(rest[:at], ":")
		rest = rest[at+1:]
	}
	h.base = scheme + "://" + rest + prefix
	if !strings.HasSuffix(h.base, "/") {
		h.base += "/"
	}
	return h
}

// ask returns the nodes of s, from the first server that answers.
func (b *naming) ask(ctx context.Context, s service) ([]discovery.Node, error) {
	first := int(b.hosts.first.Load())
	var errs []error
	for i := range b.hosts.list {
		at := (first + i) % len(b.hosts.list)
		nodes, err := b.askHost(ctx, b.hosts.list[at], s)
		if err == nil {
			b.hosts.prefer(at)
			return nodes, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// askHost asks one server; a token that it does not take any more is replaced.
func (b *naming) askHost(ctx context.Context, h *host, s service) ([]discovery.Node, error) {
	token, err := b.login(ctx, h, "")
	if err != nil {
		return nil, err
	}
	nodes, err := b.list(ctx, h, s, token)
	var status *discovery.StatusError
	if token == "" || !errors.As(err, &status) || status.Status != http.StatusForbidden && status.Status != http.StatusUnauthorized {
		return nodes, err
	}
	if token, err = b.login(ctx, h, token); err != nil {
		return nil, err
	}
	return b.list(ctx, h, s, token)
}

// login returns an access token other than the refused one; empty: the server
// has no user.
func (b *naming) login(ctx context.Context, h *host, refused string) (string, error) {
	if h.user == "" {
		return "", nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.token != "" && h.token != refused && time.Now().Before(h.until) {
		return h.token, nil
	}
	form := url.Values{"username": {h.user}, "password": {h.password}}
	r, err := http.NewRequest(http.MethodPost, h.base+"auth/login", strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var answer struct {
		AccessToken string `json:"accessToken"`
		TokenTTL    int64  `json:"tokenTtl"` // seconds
	}
	if _, err := b.client.JSON(ctx, r, b.timeout(), &answer); err != nil {
		return "", fmt.Errorf("nacos login of %s: %w", h.user, err)
	}
	if answer.AccessToken == "" {
		return "", errors.New("nacos login response missing accessToken")
	}
	// Without a TTL the token is good for this query.
	h.token, h.until = answer.AccessToken, time.Now().Add(schema.Seconds(answer.TokenTTL)/10*9)
	return h.token, nil
}

func (b *naming) timeout() time.Duration {
	t := &b.config.Timeout
	return schema.Milliseconds(float64(t.Connect) + float64(t.Send) + float64(t.Read))
}

func (b *naming) list(ctx context.Context, h *host, s service, token string) ([]discovery.Node, error) {
	args := url.Values{
		"healthyOnly": {"true"}, "serviceName": {s.name}, "namespaceId": {s.namespace}, "groupName": {s.group},
	}
	if token != "" {
		args.Set("accessToken", token)
	}
	b.sign(args, s, time.Now())
	r, err := http.NewRequest(http.MethodGet, h.base+"ns/instance/list?"+args.Encode(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	var answer struct {
		Hosts []instance `json:"hosts"`
	}
	if _, err := b.client.JSON(ctx, r, b.timeout(), &answer); err != nil {
		return nil, err
	}
	return b.nodes(answer.Hosts, s.grpc), nil
}

// sign adds what a cloud's Nacos wants of a request (HMAC-SHA1 of time, group
// and name).
func (b *naming) sign(args url.Values, s service, now time.Time) {
	if b.config.AccessKey == "" || b.config.SecretKey == "" {
		return
	}
	data := strconv.FormatInt(now.UnixMilli(), 10) + "@@" + s.group + "@@" + s.name
	mac := hmac.New(sha1.New, []byte(b.config.SecretKey))
	mac.Write([]byte(data))
	args.Set("ak", b.config.AccessKey)
	args.Set("data", data)
	args.Set("signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
