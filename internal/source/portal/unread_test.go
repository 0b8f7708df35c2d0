package portal

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/dialect/apicast"
)

// broken are proxy_configs of which nothing can be read.
var broken = map[string]string{
	"null":     `{"proxy_config":{"id":70,"version":2,"content":null}}`,
	"lacking":  `{"proxy_config":{"id":70,"version":2}}`,
	"a text":   `{"proxy_config":{"id":70,"content":"x"}}`,
	"a list":   `{"proxy_config":{"content":[],"id":70}}`,
	"empty":    `{"proxy_config":{}}`,
	"no id":    `{"proxy_config":{"id":70,"content":{"id":{}}}}`,
	"a number": `{"proxy_config":{"id":70,"content":7}}`,
}

func (b *bench) warnings(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.log.String(), text)
}

// elements are proxy_configs: services in theirs, and others as they are.
func elements(docs ...string) string {
	for i, d := range docs {
		if !strings.HasPrefix(d, `{"proxy_config"`) {
			docs[i] = `{"proxy_config":{"content":` + d + `}}`
		}
	}
	return `{"proxy_configs":[` + strings.Join(docs, ",") + `]}`
}

func (p *porta) say(docs ...string) {
	p.edit(func() { p.garbage = elements(docs...) })
}

func (b *bench) brokenIDs() string {
	var ids []string
	for id := range b.Broken() {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// What cannot be read disables itself: the others are refreshed, and what runs of
// it stays, at its place, until it is readable or gone.
func TestUnread(t *testing.T) {
	one, two, three := svc(1, "a", ""), svc(2, "b", ""), svc(3, "c", "")
	for name, x := range broken {
		t.Run(name, func(t *testing.T) {
			p := newPorta(t)
			p.say(one, two, three)
			b := start(t, boot(p)).started()
			for i, c := range []struct {
				docs     []string
				ids      string
				broken   string
				warnings int
			}{
				{[]string{svc(1, "a", `,"secret_token":"s"`), x, three}, "1 2 3", "2", 1},
				{[]string{one, x, three}, "1 2 3", "2", 1},
				{[]string{x, three}, "2 3", "2", 1}, // the first is deleted
				{[]string{three}, "3", "", 1},       // and this one
				{[]string{three, x}, "3", "", 2},    // a new one, that never ran
				{[]string{x}, "", "", 2},
				{[]string{three, two, one}, "1 2 3", "", 2},
				{[]string{three, x, x}, "1 2 3", "1 2", 4},
				{[]string{three, x, one}, "1 2 3", "2", 4},
			} {
				p.say(c.docs...)
				b.reload()
				if b.ids() != c.ids || b.brokenIDs() != c.broken || b.warnings("a service cannot be read") != c.warnings {
					t.Errorf("%d: products %s, broken %s, %d warnings, want %+v; log %s", i, b.ids(), b.brokenIDs(), b.warnings("a service cannot be read"), c, b.log.String())
				}
			}
			if got := ids(b.current.Load()); got != "3 2 1" {
				t.Error(got)
			}
		})
	}
}

// A gateway starts with what can be read.
func TestUnreadAtStart(t *testing.T) {
	p := newPorta(t)
	p.say(svc(1, "a", ""), broken["null"], svc(3, "c", ""))
	b := start(t, boot(p)).started()
	if b.ids() != "1 3" || !b.logged("proxy_config 70: an object is expected, not null") {
		t.Error(b.ids(), b.log.String())
	}
	p.say(svc(1, "a", ""), svc(2, "b", ""), svc(3, "c", ""))
	if b.reload(); b.ids() != "1 2 3" {
		t.Error(b.ids())
	}
}

// A page of the portal that has what cannot be read is as long as it is.
func TestUnreadPages(t *testing.T) {
	var docs []string
	for i := range perPage {
		docs = append(docs, svc(i+1, fmt.Sprint("h", i), ""))
	}
	p := newPorta(t)
	next := svc(9999, "z", "")
	b := start(t, Config{Endpoint: "http://portal", TTL: time.Hour, Timeout: time.Second, Transport: transport(func(r *http.Request) (int, string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if r.URL.Query().Get("page") == "2" {
			return 200, elements(next)
		}
		return 200, elements(slices.Clone(docs)...)
	})}).started()
	if b.Len() != perPage+1 {
		t.Fatal(b.Len())
	}
	p.edit(func() { docs[7] = broken["null"] })
	if b.reload(); b.Len() != perPage+1 || b.brokenIDs() != "8" {
		t.Error(b.Len(), b.brokenIDs())
	}
	p.edit(func() {
		for i := range docs {
			docs[i] = fmt.Sprintf(`{"proxy_config":{"id":%d,"content":null}}`, i)
		}
	})
	if b.reload(); b.Len() != perPage+1 {
		t.Error(b.Len())
	}
	p.edit(func() { next = svc(1, "h0", "") })
	if b.reload(); b.Len() != perPage {
		t.Error(b.Len())
	}
}

func TestUnreadLazy(t *testing.T) {
	p := newPorta(t)
	now := time.Now()
	cfg := lazy(p, time.Minute)
	cfg.Now = func() time.Time { p.mu.Lock(); defer p.mu.Unlock(); return now }
	p.say(svc(1, "a", ""), svc(2, "a", ""))
	b := start(t, cfg).started()
	if err := b.want("a"); err != nil || b.ids() != "1 2" {
		t.Fatal(err, b.ids())
	}
	for name, c := range map[string]struct {
		docs []string
		ids  string
	}{
		"broken":  {[]string{broken["null"], svc(2, "a", `,"secret_token":"s"`)}, "1 2"},
		"both":    {[]string{broken["null"], broken["a text"]}, "1 2"},
		"another": {[]string{svc(1, "a", ""), broken["a text"]}, "1 2"},
	} {
		p.say(svc(1, "a", ""), svc(2, "a", ""))
		p.edit(func() { now = now.Add(time.Hour) })
		if err := b.want("a"); err != nil || b.ids() != "1 2" || b.brokenIDs() != "" {
			t.Fatal(name, err, b.ids(), b.brokenIDs())
		}
		p.say(c.docs...)
		p.edit(func() { now = now.Add(time.Hour) })
		p.requests()
		for range 3 {
			if err := b.want("a"); err != nil || b.ids() != c.ids || b.brokenIDs() == "" {
				t.Error(name, err, b.ids(), b.brokenIDs())
			}
		}
		if n := len(p.requests()); n != 1 {
			t.Errorf("%s: %d loads", name, n)
		}
		p.edit(func() { now = now.Add(time.Hour) })
		warned := b.warnings("a service cannot be read")
		if err := b.want("a"); err != nil || b.warnings("a service cannot be read") != warned {
			t.Error(name, err, warned)
		}
	}
	p.say(svc(2, "a", ""))
	p.edit(func() { now = now.Add(time.Hour) })
	if err := b.want("a"); err != nil || b.ids() != "2" || b.brokenIDs() != "" {
		t.Error(err, b.ids())
	}
	// Names that nobody has are not remembered.
	p.say(broken["null"])
	for i := range 100 {
		if err := b.want(fmt.Sprint("random", i)); err != nil {
			t.Error(err)
		}
	}
	if n := len(b.current.Load().unread); n != 0 || b.ids() != "2" {
		t.Error(n, b.ids())
	}
}

// Of a service that is asked for by its id it is known which one it is.
func TestUnreadPinned(t *testing.T) {
	p := newPorta(t, svc(1, "a", ""), svc(2, "b", ""))
	cfg := boot(p)
	cfg.Versions, cfg.Services = map[string]string{"1": "7"}, []string{"1", "2"}
	b := start(t, cfg).started()
	p.edit(func() { p.services["2"] = "null"; p.services["1"] = svc(1, "x", "") })
	for range 2 {
		if b.reload(); b.ids() != "1 2" || b.brokenIDs() != "2" || !strings.Contains(b.product("1"), `"x"`) {
			t.Error(b.ids(), b.brokenIDs(), b.product("1"))
		}
	}
	if n := b.warnings("service 2: proxy_config 1: an object is expected, not null"); n != 1 {
		t.Errorf("%d warnings: %s", n, b.log.String())
	}
	p.edit(func() { delete(p.services, "2") })
	if b.reload(); b.ids() != "1" {
		t.Error(b.ids())
	}
}

// So do documents: files, and what the management API is sent.
func TestUnreadDocuments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, two := svc(1, "a", ""), svc(2, "b", "")
	write(`{"services":[` + one + `,` + two + `]}`)
	b := start(t, Config{File: path, TTL: time.Hour}).started()
	write(`{"services":[null,` + svc(2, "x", "") + `,` + svc(3, "c", "") + `]}`)
	for range 2 {
		if b.reload(); b.ids() != "1 2 3" || b.brokenIDs() != "1" || !strings.Contains(b.product("2"), `"x"`) || b.warnings("services[0]: ") != 1 {
			t.Error(b.ids(), b.brokenIDs(), b.log.String())
		}
	}
	replace := func(text string) (int, error) {
		d, err := apicast.Read([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return b.Replace(t.Context(), d)
	}
	if n, err := replace(`{"services":[` + one + `,"x",` + svc(3, "d", "") + `]}`); n != 2 || err != nil || b.ids() != "1 2 3" || b.brokenIDs() != "2" {
		t.Error(n, err, b.ids(), b.brokenIDs())
	}
	if n, err := replace(`{"services":[null]}`); n != 0 || err == nil || b.ids() != "1 2 3" {
		t.Error(n, err, b.ids())
	}
	b.stop()
	b = start(t, Config{Configuration: `data:application/json,{"services":[null,` + two + `,3]}`, TTL: time.Hour}).started()
	if b.ids() != "2" || b.warnings("a service cannot be read") != 2 {
		t.Error(b.ids(), b.log.String())
	}
	if b.reload(); b.warnings("a service cannot be read") != 2 {
		t.Error(b.log.String())
	}
}

// TestListUnread: what cannot be read is so however long the answer is.
func TestListUnread(t *testing.T) {
	one := svc(1, "a", "")
	for name, x := range broken {
		text := elements(one, x, one)
		compare(t, text, nil)
		compare(t, text, entriesOf(t, one))
		all, err := readList(strings.NewReader(strings.Repeat(" ", 2<<20)+text), nil)
		if err != nil || len(all) != 3 || all[1].Unread == nil || all[1].ID != "" {
			t.Fatalf("%s: %d, %v", name, len(all), err)
		}
		if again, err := readConfigs([]byte(text)); err != nil || string(again[1].Service) != string(all[1].Service) || again[1].Unread.Error() != all[1].Unread.Error() {
			t.Errorf("%s: %v %+v", name, err, again[1])
		}
	}
}
