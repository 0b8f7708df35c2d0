package portal

import (
	"context"
	"errors"
	"net"
	"net/url"
	"time"

	"weir/internal/dialect/apicast"
)

// v1Path is where a portal has the whole configuration if its URL has no path.
const v1Path = "/admin/api/nginx/spec.json"

// v1Time bounds an answer.
const v1Time = 10 * time.Second

// loadV1 asks for the whole document at once (apicast.md §3.3).
func (o *origin) loadV1(ctx context.Context, v *visit) (*whole, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, errors.New("the portal's URL cannot be read")
	}
	if err := o.wait(ctx, u); err != nil {
		return nil, err
	}
	if u.Path == "" {
		u.Path = v1Path
	}
	ctx, cancel := context.WithTimeout(ctx, v1Time)
	defer cancel()
	return get(ctx, o.fetcher, question{address: u.String(), visit: v}, func(body []byte) (*whole, error) {
		d, err := apicast.Read(body)
		if err == nil && d.Services == nil {
			err = errNoServices // a server that is not the portal may answer with any JSON
		}
		if err != nil {
			return nil, err
		}
		return o.whole(d), nil
	})
}

// errNoServices says that a document does not even say that there are none.
var errNoServices = errors.New("there are no services in it")

// wait tries to connect until the portal is there or its time is over.
func (o *origin) wait(ctx context.Context, u *url.URL) error {
	ports := map[string]string{"http": "80", "https": "443"}
	port := u.Port()
	if port == "" {
		port = ports[u.Scheme]
	}
	if port == "" {
		return errors.New("the portal's URL has no port, and a scheme that has none")
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	for {
		c, err := o.Dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
