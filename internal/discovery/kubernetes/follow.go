package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"weir/internal/discovery"
	"weir/internal/schema"
)

// pageSize is how many objects a list returns at a time (APISIX's).
const pageSize = 120

// maxEvent bounds an event of a watch, in bytes: objects have at most 1.5 MiB.
const maxEvent = 16 << 20

// leastWatch is how long a watch lasts at least, with the pause after it.
const leastWatch = 100 * time.Millisecond

// errGone says that changes since the version of a list are not to be had any
// more (410 Gone): the objects have to be listed anew.
var errGone = errors.New("410 gone: the version is too old")

// A follower has the objects that make up one service.
type follower struct {
	*cluster
	service
	feed    *discovery.Feed
	nodes   map[string][]discovery.Node // by name of the object
	version string                      // of what nodes were made from
}

// follow lists and watches until ctx ends. What fails is begun anew with a list.
func (c *cluster) follow(ctx context.Context, s service, f *discovery.Feed) {
	w := &follower{cluster: c, service: s, feed: f}
	pace := discovery.NewPace(c.env)
	for {
		began, err := time.Now(), w.list(ctx)
		for err == nil {
			began = time.Now()
			err = w.watch(ctx)
			if err == nil && time.Since(began) < leastWatch && !discovery.Sleep(ctx, leastWatch) {
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		// A list after which no watch is possible is no success: it would be
		// asked for again and again.
		steady := time.Since(began) >= c.steady
		if steady {
			pace.Succeeded()
		}
		switch gone := errors.Is(err, errGone); {
		case gone && steady:
			continue
		case !gone:
			f.Fail(err)
		}
		if !pace.Failed(ctx) {
			return
		}
	}
}

// metadata is what all objects and lists have.
type metadata struct {
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion"`
	Continue        string `json:"continue"`
}

// list reads all objects.
func (w *follower) list(ctx context.Context) error {
	nodes := map[string][]discovery.Node{}
	version, next := "", ""
	for {
		args := url.Values{"limit": {strconv.Itoa(pageSize)}}
		if next != "" {
			args.Set("continue", next)
		}
		r, err := w.request(w.service, args)
		if err != nil {
			return err
		}
		var page struct {
			Kind     string    `json:"kind"`
			Metadata *metadata `json:"metadata"`
			Items    []object  `json:"items"`
		}
		if _, err := w.client.JSON(ctx, r, w.answer, &page); err != nil {
			return gone(err)
		}
		if want := w.listKind(); page.Kind != want || page.Metadata == nil {
			return fmt.Errorf("%s: the answer is no %s", r.URL.Path, want)
		}
		for _, o := range page.Items {
			nodes[o.Metadata.Name] = o.nodes(w.port, w.config.DefaultWeight)
		}
		// The first page's version misses no change even if pages are not of one
		// version; what is seen twice changes nothing.
		version = cmp.Or(version, page.Metadata.ResourceVersion)
		if next = page.Metadata.Continue; next == "" {
			break
		}
	}
	w.nodes, w.version = nodes, version
	w.tell()
	return nil
}

func (c *cluster) listKind() string {
	if c.config.WatchEndpointSlices {
		return "EndpointSliceList"
	}
	return "EndpointsList"
}

// gone is err, or errGone if it is a status that says that.
func gone(err error) error {
	var status *discovery.StatusError
	if errors.As(err, &status) && status.Status == http.StatusGone {
		return errGone
	}
	return err
}

// watch follows changes until the server ends that, with nil, or something fails.
func (w *follower) watch(ctx context.Context) error {
	length := time.Duration((1 + w.env.Rand()) / 2 * float64(w.length))
	seconds := max(1, int(length/time.Second))
	r, err := w.request(w.service, url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {w.version},
		"timeoutSeconds": {strconv.Itoa(seconds)},
	})
	if err != nil {
		return err
	}
	// The server ends the watch; the client does where it does not.
	ctx, cancel := context.WithTimeout(ctx, schema.Seconds(seconds)+w.answer)
	defer cancel()
	late := time.AfterFunc(w.answer, cancel)
	resp, err := w.client.Open(ctx, r)
	if err == nil {
		defer resp.Body.Close()
	}
	if !late.Stop() {
		err = fmt.Errorf("%s: the watch did not begin in time", r.URL.Path)
	}
	if err != nil {
		return gone(err)
	}
	body := io.LimitedReader{R: resp.Body}
	for events := json.NewDecoder(&body); ; {
		body.N = maxEvent
		var e event
		err := events.Decode(&e)
		switch {
		case err == io.EOF && body.N > 0:
			return nil
		case body.N <= 0:
			return fmt.Errorf("%s: an event of more than %d bytes", r.URL.Path, maxEvent)
		case err != nil:
			return fmt.Errorf("%s: watch: %w", r.URL.Path, err)
		}
		if err := w.take(&e); err != nil {
			return err
		}
	}
}

// An event is a line of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// take makes a change.
func (w *follower) take(e *event) error {
	if e.Type == "ERROR" {
		var status struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal(e.Object, &status); err == nil && status.Code == http.StatusGone {
			return errGone
		}
		return fmt.Errorf("watch: error %d: %s", status.Code, status.Message)
	}
	var o object
	if err := json.Unmarshal(e.Object, &o); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if o.Metadata.ResourceVersion == "" {
		return errors.New("watch: an object without a version")
	}
	w.version = o.Metadata.ResourceVersion
	switch e.Type {
	case "ADDED", "MODIFIED":
		w.nodes[o.Metadata.Name] = o.nodes(w.port, w.config.DefaultWeight)
	case "DELETED":
		delete(w.nodes, o.Metadata.Name)
	default: // BOOKMARK: only the version is new
		return nil
	}
	w.tell()
	return nil
}

// tell gives the feed the nodes of all objects, each once: an endpoint may be in
// two slices while it moves.
func (w *follower) tell() {
	var all []discovery.Node
	for _, nodes := range w.nodes {
		all = append(all, nodes...)
	}
	w.feed.Set(distinct(all))
}
