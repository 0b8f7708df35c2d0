package snapshot

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/meter"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugins/keyauth"
	"weir/internal/threescale"
	"weir/internal/upstream"
)

// A stage is what appliers of worlds share: plugins, whose open configurations it
// counts, and certificates.
type stage struct {
	live
	plugins  []plugin.Spec
	streams  []plugin.StreamSpec
	policies []plugin.Spec
	pairs    []pair
}

func newStage(pairs []pair) *stage {
	s := &stage{pairs: pairs, policies: []plugin.Spec{testPolicy("apicast", true), testPolicy("other", false)}}
	s.plugins = []plugin.Spec{
		keyauth.Plugin, s.meta(), s.tag("tag", 10, false), s.tag("gate", 20, true), s.tag("pair", 7, false), s.tag("lock", 8, true), s.described(),
	}
	s.streams = []plugin.StreamSpec{s.streamTag("tag", false), s.streamTag("gate", true), s.streamTag("pair", false), s.streamTag("lock", true)}
	return s
}

// A subject is an applier with all that the objects of a world need.
type subject struct {
	*Applier
	pools   *upstream.Pools
	runtime *threescale.Runtime
}

func (s *stage) subject() *subject {
	log := slog.New(slog.DiscardHandler)
	x := &subject{pools: upstream.NewPools(), runtime: threescale.NewRuntime(threescale.Settings{}, log, meter.New(0), time.Now)}
	x.Applier = New(Config{
		Plugins: s.plugins, StreamPlugins: s.streams, Products: Products{Policies: s.policies, Runtime: x.runtime},
		Upstream: upstream.Env{Pools: x.pools, Log: log}, Log: log,
	})
	return x
}

// described makes a test plugin that shows a proto object.
func (l *live) described() plugin.Spec {
	type conf struct {
		ID plugin.ObjectID `json:"proto_id" schema:"required" doc:"Test member."`
	}
	return plugin.Define(plugin.Meta{Name: "described", Priority: 4, Doc: "Test plugin."},
		func(c *conf, env plugin.Env) (plugin.Phases, error) {
			l.n.Add(1)
			content, ok := env.Proto(string(c.ID))
			value := fmt.Sprint(env.Owner, " ", content, " ", ok)
			return plugin.Phases{
				Access: func(x *plugin.Ctx) *plugin.Reply { x.SetReplyHeader("described", value); return nil },
				Close:  func() { l.n.Add(-1) },
			}, nil
		},
		plugin.Proto(func(raw json.RawMessage) string {
			var c conf
			_ = json.Unmarshal(raw, &c) // what cannot be read is refused
			return string(c.ID)
		}))
}

func (s *subject) apply(d model.Delta, products bool) {
	if products {
		s.ApplyProducts(d)
	} else {
		s.Apply(d)
	}
}

func (s *subject) close() {
	s.Applier.Close()
	s.runtime.Close()
	s.pools.Close()
}

// observe is everything that somebody could notice, as text.
func observe(s *Snapshot) string {
	var out []string
	for _, host := range []string{"a.test", "b.test", "c.test", "other"} {
		for _, path := range []string{"/0", "/0/x", "/1", "/1/x", "/2", "/2y", "/3", "/3/x", "/9"} {
			r := match(s, host, path)
			line := host + path + " " + run(r) + " in all " + runAs(s, r, nil)
			if r != nil {
				u, fault := s.Upstream(r, "")
				line += fmt.Sprintf(" route %s fault %d upstream %v %d", r.ID, r.Fault, nodesOf(u), fault)
			}
			out = append(out, line)
		}
		out = append(out, "product of "+host+" "+found(s, host, "/"))
		if c := s.Certificate(host); c != nil {
			out = append(out, fmt.Sprintf("certificate of %s: %s %d", host, c.ID, c.Config.Certificates[0].Leaf.SerialNumber))
		}
	}
	out = append(out, fmt.Sprint("asks clients ", s.AsksClients()))
	for i := range 6 {
		line := fmt.Sprintf("key %d:", i)
		if c := s.Find("key-auth", fmt.Sprintf("k%d", i)); c != nil {
			line += fmt.Sprintf(" %s %s %s %s %v: %s", c.Name, c.CredentialID, c.CustomID, c.GroupID, c.Credential, runAs(s, match(s, "a.test", "/0"), c))
		}
		out = append(out, line)
	}
	for _, sni := range []string{"", "a.com", "x.a.com"} {
		for port := range uint16(3) {
			out = append(out, fmt.Sprintf("session %s %d: %s", sni, port, streamRun(s, sni, port)))
		}
	}
	return strings.Join(append(out, stored(s)...), "\n")
}

func nodesOf(u *Upstream) []string {
	if u == nil {
		return nil
	}
	return u.Nodes()
}

// stored are the objects at their versions, and the faults.
func stored(s *Snapshot) []string {
	var out []string
	for k := range model.KindCount {
		n := len(out)
		for o := range s.Objects(k) {
			out = append(out, fmt.Sprintf("%s created %d modified %d", o.Key, o.Created, o.Modified))
		}
		if len(out)-n != s.Count(k) {
			out = append(out, fmt.Sprintf("%d %s are counted", s.Count(k), k.Dir()))
		}
	}
	for path, err := range s.Faults {
		out = append(out, path+": "+err.Error())
	}
	for _, name := range []string{"tag", "meta"} {
		out = append(out, fmt.Sprint(name, " enabled ", s.Enabled(name, false), s.Enabled(name, true)))
	}
	slices.Sort(out)
	return out
}

// rebuilt is what is observed of a world when it is made from nothing.
func (s *stage) rebuilt(w *world) string {
	x := s.subject()
	defer x.close()
	for _, d := range w.history() {
		products, others := ofProducts(d)
		x.ApplyProducts(products)
		x.Apply(others)
	}
	return observe(x.Current())
}

// between is after how many operations incremental and rebuilt are compared.
const between = 50

// differ makes n operations in a world and says where the state that grew with them
// differs from one made from nothing; nil: nowhere. It compares after about 50
// operations each, and at the end.
func (s *stage) differ(seed uint64, n int) (made int, err error) {
	w, x := newWorld(seed, s.pairs), s.subject()
	due := between
	for revision := int64(4); made < n; revision++ {
		d, products := w.step(revision)
		x.apply(d, products)
		made += len(d.Put) + len(d.Del)
		if made < due && made < n {
			continue
		}
		due = made + between
		if got, want := observe(x.Current()), s.rebuilt(w); got != want {
			x.close()
			return made, fmt.Errorf("seed %d, after %d operations, last %s:\n%s", seed, made, describe(d), firstDifference(got, want))
		}
	}
	x.close()
	if left := s.n.Load(); left != 0 {
		return made, fmt.Errorf("seed %d: %d plugin configurations were never closed", seed, left)
	}
	return made, nil
}

// number is a number of the environment.
func number(t *testing.T, name string, otherwise int) int {
	text, set := os.LookupEnv(name)
	if !set {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestIncrementalEqualsRebuilt: after any sequence of deltas the state is the one made
// from nothing. OPERATIONS puts and deletions are made, from the seed SEED on.
func TestIncrementalEqualsRebuilt(t *testing.T) {
	const perSeed = 1000
	operations, first := number(t, "OPERATIONS", 5000), number(t, "SEED", 0)
	pairs := newPairs(t, 3)
	var made, seeds atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			s := newStage(pairs)
			for !t.Failed() {
				seed := seeds.Add(1) - 1
				if seed*perSeed >= int64(operations) {
					return
				}
				n, err := s.differ(uint64(first)+uint64(seed), perSeed)
				made.Add(int64(n))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d operations from seed %d on, compared after about %d each", made.Load(), first, between)
}

func describe(d model.Delta) string {
	var b strings.Builder
	for _, o := range d.Put {
		fmt.Fprintf(&b, "\nput %s %.300s", o.Key, o.Raw)
	}
	for _, k := range d.Del {
		fmt.Fprintf(&b, "\ndel %s", k)
	}
	return b.String()
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "incremental " + g[i] + "\nrebuilt     " + w[i]
		}
	}
	return fmt.Sprintf("%d lines, rebuilt %d", len(g), len(w))
}
