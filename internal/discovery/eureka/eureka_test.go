package eureka

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/discovery"
	"weir/internal/discovery/discoverytest"
	"weir/internal/leaktest"
	"weir/internal/model"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fake is a Eureka.
type fake struct {
	*discoverytest.Server
	auth string

	mu   sync.Mutex
	apps map[string]string // the list "instance"
}

func newFake(t *testing.T) *fake {
	f := &fake{apps: map[string]string{}}
	f.Server = discoverytest.Serve(t, http.HandlerFunc(f.serve))
	return f
}

func (f *fake) set(app, instances string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apps[app] = instances
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	if r.URL.Path != "/eureka/apps" || r.Header.Get("Accept") != "application/json" {
		http.NotFound(w, r)
		return
	}
	if f.auth != "" && user+":"+password != f.auth {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var apps []string
	for name, instances := range f.apps {
		apps = append(apps, fmt.Sprintf(`{"name":%q,"instance":%s}`, name, instances))
	}
	fmt.Fprintf(w, `{"applications":{"versions__delta":"1","apps__hashcode":"UP_1_","application":[%s]}}`, strings.Join(apps, ","))
}

func up(port int, more string) string {
	return fmt.Sprintf(`{"instanceId":"i","ipAddr":"127.0.0.1","status":"UP","overriddenstatus":"UNKNOWN","port":{"$":%d,"@enabled":"true"},`+
		`"securePort":{"$":443,"@enabled":"false"},"metadata":{"@class":"java.util.Collections$EmptyMap"}%s}`, port, more)
}

// start runs a registry that reads every few milliseconds.
func start(t *testing.T, more string, hosts ...string) *discovery.Registry {
	t.Helper()
	list, _ := json.Marshal(hosts)
	raw := fmt.Sprintf(`{"host":%s,"prefix":"/eureka/","timeout":{"connect":30,"send":30,"read":40}%s}`, list, more)
	c, shown, err := discovery.Parse[Config]([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	b, err := newReader(&c, discoverytest.Env(t))
	if err != nil {
		t.Fatal(err)
	}
	b.interval, b.least = 10*time.Millisecond, time.Millisecond
	return discoverytest.Start(t, discovery.New(discovery.Config{Kind: kind, Backend: b, Env: discoverytest.Env(t), Shown: shown}), nil)
}

func TestFollow(t *testing.T) {
	f := newFake(t)
	f.set("A", "["+up(1, "")+","+up(2, "")+"]")
	f.set("B", "["+up(3, "")+"]")
	r := start(t, `,"weight":80`, f.URL)
	a := discoverytest.Use(t, r, "A", "")
	discoverytest.Await(t, a, "127.0.0.1:1*80", "127.0.0.1:2*80")
	discoverytest.Await(t, discoverytest.Use(t, r, "b", ""), "127.0.0.1:3*80")
	discoverytest.Await(t, discoverytest.Use(t, r, "C", ""))
	f.set("A", "["+up(4, "")+"]")
	f.set("C", up(5, ""))
	discoverytest.Await(t, a, "127.0.0.1:4*80")
	discoverytest.Await(t, discoverytest.Use(t, r, "C", ""), "127.0.0.1:5*80")
	f.set("B", `"garbage"`)
	f.set("A", "["+up(6, "")+"]")
	discoverytest.Await(t, a, "127.0.0.1:6*80")
	discoverytest.Await(t, discoverytest.Use(t, r, "B", ""), "127.0.0.1:3*80")
}

// TestIdle: nothing is read while no application is followed.
func TestIdle(t *testing.T) {
	f := newFake(t)
	f.set("A", "["+up(1, "")+"]")
	r := start(t, "", f.URL)
	for range 3 {
		s, err := r.Discovery(&model.Upstream{ServiceName: "A"})
		if err != nil {
			t.Fatal(err)
		}
		discoverytest.Await(t, s, "127.0.0.1:1*100")
		s.Close()
		discoverytest.Until(t, func() bool { return len(r.Services()) == 0 }, func() string { return "still followed" })
		time.Sleep(30 * time.Millisecond)
		n := f.Requests.Load()
		time.Sleep(50 * time.Millisecond)
		if f.Requests.Load() != n {
			t.Error("it reads on")
		}
	}
}

func TestInstances(t *testing.T) {
	b, err := newReader(&Config{Host: []string{"http://h"}}, discoverytest.Env(t))
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{
		up(1, ""):                                           "127.0.0.1:1*100",
		up(1, `,"metadata":{"weight":"7"}`):                 "127.0.0.1:1*7",
		up(1, `,"metadata":{"weight":7}`):                   "127.0.0.1:1*7",
		up(1, `,"metadata":{"weight":"x"}`):                 "127.0.0.1:1*100",
		up(1, `,"metadata":null`):                           "127.0.0.1:1*100",
		up(1, `,"status":"DOWN"`):                           "",
		up(1, `,"status":"STARTING"`):                       "",
		up(1, `,"overriddenstatus":"DOWN"`):                 "",
		up(1, `,"overriddenStatus":"OUT_OF_SERVICE"`):       "",
		up(1, `,"status":"DOWN","overriddenstatus":"UP"`):   "127.0.0.1:1*100",
		up(1, `,"port":{"$":1,"@enabled":"false"}`):         "",
		up(1, `,"port":{"$":"9","@enabled":true}`):          "127.0.0.1:9*100",
		up(1, `,"securePort":{"$":8443,"@enabled":"true"}`): "127.0.0.1:8443*100",
		up(1, `,"securePort":{"$":"x","@enabled":"true"}`):  "127.0.0.1:1*100",
		up(1, `,"ipAddr":"some.host"`):                      "some.host:1*100",
		`{"status":"UP"}`:                                   "",
	} {
		var i instance
		if err := json.Unmarshal([]byte(raw), &i); err != nil {
			t.Fatal(err)
		}
		got := ""
		if n, ok := b.node(&i); ok {
			got = fmt.Sprintf("%s:%d*%d", n.Host, n.Port, n.Weight)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func TestHosts(t *testing.T) {
	f, down := newFake(t), newFake(t)
	f.auth = "u:p@:"
	f.set("A", "["+up(1, "")+"]")
	down.set("A", "["+up(2, "")+"]")
	down.Fail(discoverytest.Broken)
	r := start(t, "", down.URL, "http://u:p@:@"+strings.TrimPrefix(f.URL, "http://"))
	a := discoverytest.Use(t, r, "A", "")
	discoverytest.Await(t, a, "127.0.0.1:1*100")
	down.Fail(discoverytest.None)
	f.Fail(discoverytest.Hang)
	discoverytest.Await(t, a, "127.0.0.1:2*100")
}

func TestFaults(t *testing.T) {
	for fault := discoverytest.Refuse; fault < discoverytest.Faults; fault++ {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.set("A", "["+up(1, "")+"]")
			a := discoverytest.Use(t, start(t, "", f.URL), "A", "")
			discoverytest.Await(t, a, "127.0.0.1:1*100")
			f.Fail(fault)
			f.set("A", "[]")
			n := f.Requests.Load()
			discoverytest.Until(t, func() bool { return f.Requests.Load() > n+2 }, func() string { return "it gave up" })
			discoverytest.Await(t, a, "127.0.0.1:1*100")
			f.Fail(discoverytest.None)
			discoverytest.Await(t, a)
		})
	}
}

func TestConfig(t *testing.T) {
	for raw, valid := range map[string]bool{
		`{}`:                                       false,
		`{"host":[]}`:                              false,
		`{"host":["h"]}`:                           false,
		`{"host":["http://h:8761"]}`:               true,
		`{"host":["https://u:p@h"],"weight":0}`:    true,
		`{"host":["http://h"],"weight":-1}`:        false,
		`{"host":["http://h"],"fetch_interval":0}`: false,
		`{"host":["http://h%zz"]}`:                 false,
	} {
		r, err := New([]byte(raw), discovery.Env{})
		if (err == nil) != valid {
			t.Errorf("%s: %v", raw, err)
		}
		if err == nil {
			r.Close()
		}
	}
}

func TestDifferential(t *testing.T) {
	f := newFake(t)
	r := start(t, "", f.URL)
	rnd := rand.New(rand.NewPCG(7, 8))
	const apps = 20
	want := map[string][]string{}
	for step := range 300 {
		name := fmt.Sprintf("S%d", rnd.IntN(apps))
		var instances []string
		want[name] = nil
		for port := range rnd.IntN(5) {
			if rnd.IntN(4) == 0 {
				instances = append(instances, up(port+1, `,"status":"DOWN"`))
				continue
			}
			instances = append(instances, up(port+1, ""))
			want[name] = append(want[name], fmt.Sprintf("127.0.0.1:%d*100", port+1))
		}
		f.set(name, "["+strings.Join(instances, ",")+"]")
		s, err := r.Discovery(&model.Upstream{ServiceName: fmt.Sprintf("S%d", rnd.IntN(apps))})
		if err != nil {
			t.Fatal(err)
		}
		if rnd.IntN(3) > 0 {
			s.Close()
		} else {
			defer s.Close()
		}
		switch rnd.IntN(20) {
		case 0:
			f.Fail(discoverytest.Fault(rnd.IntN(int(discoverytest.Faults))))
		case 1, 2:
			f.Fail(discoverytest.None)
		}
		if step%20 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	f.Fail(discoverytest.None)
	for i := range apps {
		name := fmt.Sprintf("S%d", i)
		discoverytest.Await(t, discoverytest.Use(t, r, name, ""), want[name]...)
	}
}

func FuzzApps(f *testing.F) {
	f.Add(`{"applications":{"application":[{"name":"A","instance":[` + up(1, "") + `]}]}}`)
	f.Add(`{"applications":{"application":{"name":"A","instance":` + up(1, "") + `}}}`)
	b, err := newReader(&Config{Host: []string{"http://h"}}, discovery.Env{})
	if err != nil {
		f.Fatal(err)
	}
	feeds := map[*discovery.Feed]string{new(discovery.Feed): "A"}
	f.Fuzz(func(t *testing.T, answer string) {
		var r registry
		if json.Unmarshal([]byte(answer), &r) != nil || r.Applications == nil {
			return
		}
		if len(b.find(&r, feeds)) != 1 {
			t.Error("an application that is not followed")
		}
	})
}
