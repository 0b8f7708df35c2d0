package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"weir/internal/discovery"
	"weir/internal/discovery/discoverytest"
)

// server is an API server that keeps the changes since the last compaction.
type server struct {
	*discoverytest.Server
	slices bool
	token  string

	mu        sync.Mutex
	version   int
	compacted int // changes up to this version are forgotten
	objects   map[string]string
	changes   []change
	changed   chan struct{}
	lists     int
	watches   int
	page      int    // objects in an answer
	refuse    bool   // watches, with 403
	end       bool   // watches at once
	query     string // of the last request
}

type change struct {
	version   int
	kind, key string
	object    string
}

func newServer(t *testing.T, slices bool) *server {
	s := &server{slices: slices, version: 100, objects: map[string]string{}, changed: make(chan struct{}), page: 2}
	s.Server = discoverytest.Serve(t, http.HandlerFunc(s.serve))
	return s
}

// set stores the object namespace/name with the members given; an empty text
// deletes it.
func (s *server) set(key, members string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	namespace, name, _ := strings.Cut(key, "/")
	service := strings.TrimRight(name, "-0123456789")
	object := fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"resourceVersion":"%d","labels":{%q:%q}}%s}`,
		namespace, name, s.version, serviceLabel, service, members)
	kind := "MODIFIED"
	switch _, had := s.objects[key]; {
	case members == "":
		kind = "DELETED"
	case !had:
		kind = "ADDED"
	}
	s.objects[key] = object
	if members == "" {
		delete(s.objects, key)
	}
	s.changes = append(s.changes, change{version: s.version, kind: kind, key: key, object: object})
	s.wake()
}

func (s *server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// compact forgets all changes: watches that are not current are told so.
func (s *server) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.compacted = s.version
	s.changes = nil
	s.wake()
}

// bookmark tells watches of a version in which nothing changed for them.
func (s *server) bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.changes = append(s.changes, change{version: s.version, kind: "BOOKMARK", object: fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"}}`, s.version)})
	s.wake()
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	if s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	root, plural := "/api/v1/namespaces/", "/endpoints"
	if s.slices {
		root, plural = "/apis/discovery.k8s.io/v1/namespaces/", "/endpointslices"
	}
	namespace, ok1 := strings.CutPrefix(r.URL.Path, root)
	namespace, ok2 := strings.CutSuffix(namespace, plural)
	if !ok1 || !ok2 {
		http.NotFound(w, r)
		return
	}
	q := r.URL.Query()
	in := func(key string) bool {
		ns, name, _ := strings.Cut(key, "/")
		if s.slices {
			return ns == namespace && strings.HasPrefix(q.Get("labelSelector"), serviceLabel+"="+strings.TrimRight(name, "-0123456789"))
		}
		return ns == namespace && q.Get("fieldSelector") == "metadata.name="+name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.query = r.URL.RawQuery
	if q.Get("watch") == "true" {
		s.watches++
		s.serveWatch(w, r, in)
		return
	}
	s.lists++
	s.serveList(w, q.Get("continue"), in)
}

func (s *server) serveList(w http.ResponseWriter, after string, in func(string) bool) {
	var items []string
	next := ""
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !in(key) || key <= after {
			continue
		}
		if len(items) == s.page {
			break
		}
		items, next = append(items, s.objects[key]), key
	}
	if len(items) < s.page {
		next = ""
	}
	kind := "EndpointsList"
	if s.slices {
		kind = "EndpointSliceList"
	}
	fmt.Fprintf(w, `{"kind":%q,"metadata":{"resourceVersion":"%d","continue":%q},"items":[%s]}`, kind, s.version, next, strings.Join(items, ","))
}

// serveWatch sends changes. s.mu is held but while it waits.
func (s *server) serveWatch(w http.ResponseWriter, r *http.Request, in func(string) bool) {
	at, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if s.refuse {
		http.Error(w, "forbidden", http.StatusForbidden)
		return
	}
	if at < s.compacted && s.version%2 == 0 {
		http.Error(w, "gone", http.StatusGone)
		return
	}
	rc := http.NewResponseController(w)
	rc.Flush()
	for !s.end {
		if at < s.compacted {
			fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}`)
			return
		}
		for _, c := range s.changes {
			if c.version > at && (c.kind == "BOOKMARK" || in(c.key)) {
				fmt.Fprintf(w, "{\"type\":%q,\"object\":%s}\n", c.kind, c.object)
			}
		}
		at = s.version
		changed := s.changed
		s.mu.Unlock()
		rc.Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		s.mu.Lock()
		if r.Context().Err() != nil {
			return
		}
	}
}

func (s *server) counts() (lists, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists, s.watches
}

// config is a configuration for the server; more are further members.
func (s *server) config(more string) string {
	host, port, _ := strings.Cut(s.Listener.Addr().String(), ":")
	scheme, _, _ := strings.Cut(s.URL, ":")
	return fmt.Sprintf(`{"service":{"schema":%q,"host":%q,"port":%q},"client":{"token":"t-1"},"watch_endpoint_slices":%v%s}`, scheme, host, port, s.slices, more)
}

// start runs a registry for which failures are short.
func start(t *testing.T, raw string) *discovery.Registry {
	t.Helper()
	list, shown, err := parse(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	b := &clusters{byID: map[string]*cluster{}}
	for _, c := range list {
		made, err := newCluster(&c, discoverytest.Env(t))
		if err != nil {
			t.Fatal(err)
		}
		made.answer, made.steady = made.answer/50, 0
		b.byID[c.ID] = made
	}
	return discoverytest.Start(t, discovery.New(discovery.Config{Kind: kind, Backend: b, Env: discoverytest.Env(t), Shown: shown, Show: b.show}), nil)
}
