package snapshot

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/internal/model"
)

// world is what the store holds: the current version of every object and, for
// one whose current version does not compile, the last that did.
type world struct {
	rnd  *rand.Rand
	now  map[model.Key]model.Object
	good map[model.Key]model.Object
}

// version is a random document; ok says whether it compiles.
func (w *world) version(k model.Key) (raw string, ok bool) {
	r := w.rnd
	v := r.IntN(5)
	broken := r.IntN(6) == 0
	if broken {
		v = -1
	}
	pick := func(kind string, n int) string { return fmt.Sprintf("%s%d", kind, r.IntN(n)) }
	parts := []string{fmt.Sprintf(`"update_time":%d`, r.IntN(3))}
	switch k.Kind {
	case model.KindRoute:
		parts = append(parts, fmt.Sprintf(`"uri":"/%d%s"`, r.IntN(4), []string{"", "*", "/x"}[r.IntN(3)]), fmt.Sprintf(`"priority":%d`, r.IntN(2)))
		if r.IntN(2) == 0 {
			parts = append(parts, fmt.Sprintf(`"host":"%s"`, []string{"a.test", "*.test", "b.test"}[r.IntN(3)]))
		}
		if r.IntN(2) == 0 {
			parts = append(parts, fmt.Sprintf(`"service_id":"%s"`, pick("s", 3)))
		}
		if r.IntN(3) == 0 {
			parts = append(parts, fmt.Sprintf(`"plugin_config_id":"%s"`, pick("p", 2)))
		}
		if r.IntN(2) == 0 {
			parts = append(parts, fmt.Sprintf(`"upstream_id":"%s"`, pick("u", 3)))
		}
		if r.IntN(8) == 0 {
			parts = append(parts, `"status":0`)
		}
		if broken || r.IntN(2) == 0 {
			parts = append(parts, fmt.Sprintf(`"plugins":{"%s":{"v":%d}}`, []string{"tag", "gate", "meta"}[r.IntN(3)], v))
		}
	case model.KindService:
		parts = append(parts, fmt.Sprintf(`"plugins":{"tag":{"v":%d}}`, v))
		if r.IntN(2) == 0 {
			parts = append(parts, `"hosts":["a.test"]`)
		}
		if r.IntN(2) == 0 {
			parts = append(parts, node)
		}
	case model.KindPluginConfig, model.KindConsumerGroup:
		parts = append(parts, fmt.Sprintf(`"plugins":{"gate":{"v":%d}}`, v))
	case model.KindGlobalRule:
		parts = append(parts, fmt.Sprintf(`"plugins":{"%s":{"v":%d}}`, []string{"tag", "meta"}[r.IntN(2)], v))
	case model.KindPluginMetadata:
		parts, broken = append(parts, fmt.Sprintf(`"m":%d`, r.IntN(5))), false
	case model.KindUpstream:
		parts = append(parts, `"type":"roundrobin"`, fmt.Sprintf(`"nodes":{"127.0.0.1:%d":1}`, 1+r.IntN(3)))
		if broken {
			parts = append(parts, `"scheme":"quic"`)
		}
	case model.KindConsumer:
		parts = append(parts, fmt.Sprintf(`"username":"%s"`, k.ID), fmt.Sprintf(`"labels":{"custom_id":"%d"}`, r.IntN(3)))
		if r.IntN(3) == 0 {
			parts = append(parts, fmt.Sprintf(`"group_id":"%s"`, pick("g", 2)))
		}
		switch {
		case broken && r.IntN(2) == 0:
			parts = append(parts, `"plugins":{"key-auth":{}}`)
		case broken:
			parts = append(parts, fmt.Sprintf(`"plugins":{"key-auth":{"key":"k%d"},"tag":{"v":-1}}`, r.IntN(6)))
		case r.IntN(2) == 0:
			parts = append(parts, fmt.Sprintf(`"plugins":{"key-auth":{"key":"k%d"},"meta":{"v":%d}}`, r.IntN(6), v))
		case r.IntN(4) > 0:
			parts = append(parts, fmt.Sprintf(`"plugins":{"key-auth":{"key":"k%d"}}`, r.IntN(6)))
		}
	case model.KindCredential:
		parts = append(parts, fmt.Sprintf(`"plugins":{"key-auth":{"key":"k%d"}}`, r.IntN(6)))
		broken = false
	}
	return "{" + strings.Join(parts, ",") + "}", !broken
}

func (w *world) key() model.Key {
	r := w.rnd
	switch r.IntN(9) {
	case 6:
		return model.Key{Kind: model.KindConsumerGroup, ID: fmt.Sprintf("g%d", r.IntN(2))}
	case 7:
		return model.Key{Kind: model.KindGlobalRule, ID: fmt.Sprintf("x%d", r.IntN(3))}
	case 8:
		return model.Key{Kind: model.KindPluginMetadata, ID: "meta"}
	case 0:
		return model.Key{Kind: model.KindService, ID: fmt.Sprintf("s%d", r.IntN(3))}
	case 1:
		return model.Key{Kind: model.KindUpstream, ID: fmt.Sprintf("u%d", r.IntN(3))}
	case 2:
		return model.Key{Kind: model.KindPluginConfig, ID: fmt.Sprintf("p%d", r.IntN(2))}
	case 3:
		return model.Key{Kind: model.KindConsumer, ID: fmt.Sprintf("c%d", r.IntN(4))}
	case 4:
		return model.Key{Kind: model.KindCredential, ID: fmt.Sprintf("c%d/credentials/%d", r.IntN(4), r.IntN(2))}
	}
	return model.Key{Kind: model.KindRoute, ID: fmt.Sprintf("r%d", r.IntN(8))}
}

// step makes one random delta.
func (w *world) step(revision int64) model.Delta {
	d := model.Delta{Revision: revision}
	seen := map[model.Key]bool{}
	for range 1 + w.rnd.IntN(4) {
		k := w.key()
		if seen[k] {
			continue
		}
		seen[k] = true
		_, had := w.now[k]
		if had && w.rnd.IntN(4) == 0 {
			d.Del = append(d.Del, k)
			delete(w.now, k)
			delete(w.good, k)
			continue
		}
		raw, ok := w.version(k)
		o := model.Object{Key: k, Created: revision, Modified: revision, Raw: []byte(raw)}
		if had && w.rnd.IntN(10) > 0 { // else: deleted and created again, between two resyncs
			o.Created = w.now[k].Created
		} else {
			delete(w.good, k)
		}
		w.now[k] = o
		if ok {
			w.good[k] = o
		}
		d.Put = append(d.Put, o)
	}
	return d
}

// rebuilt is the state made from nothing: first the last good versions, then
// the current ones.
func (w *world) rebuilt(t *testing.T) *Snapshot {
	b := newBench(t)
	b.Apply(model.Delta{Revision: 1, Put: slices.Collect(maps.Values(w.good))})
	b.Apply(model.Delta{Revision: 2, Put: slices.Collect(maps.Values(w.now))})
	return b.Current()
}

// observe is everything that a request could notice, as text.
func observe(s *Snapshot) string {
	var out []string
	for _, host := range []string{"a.test", "b.test", "c.test", "other"} {
		for _, path := range []string{"/0", "/0/x", "/1", "/1/x", "/2", "/2y", "/3", "/3/x", "/9"} {
			r := match(s, host, path)
			line := host + path + " " + run(r) + " in all " + runAs(s, r, nil)
			if r != nil {
				u, fault := s.Upstream(r, "")
				var nodes []string
				if u != nil {
					nodes = u.Nodes()
				}
				line += fmt.Sprintf(" route %s fault %d upstream %v %d", r.ID, r.Fault, nodes, fault)
			}
			out = append(out, line)
		}
	}
	for i := range 6 {
		line := fmt.Sprintf("key %d:", i)
		if c := s.Find("key-auth", fmt.Sprintf("k%d", i)); c != nil {
			line += fmt.Sprintf(" %s %s %s %s %v: %s", c.Name, c.CredentialID, c.CustomID, c.GroupID, c.Credential, runAs(s, match(s, "a.test", "/0"), c))
		}
		out = append(out, line)
	}
	var faults []string
	for path, err := range s.Faults {
		faults = append(faults, path+": "+err.Error())
	}
	slices.Sort(faults)
	for k := range model.KindCount {
		out = append(out, fmt.Sprint(k.Dir(), " ", s.Count(k)))
	}
	return strings.Join(append(out, faults...), "\n")
}

// TestIncrementalEqualsRebuilt: after any sequence of deltas the state is the
// one made from nothing.
func TestIncrementalEqualsRebuilt(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &world{rnd: rand.New(rand.NewPCG(seed, 1)), now: map[model.Key]model.Object{}, good: map[model.Key]model.Object{}}
			b := newBench(t)
			for i := range int64(100) {
				d := w.step(i + 3)
				b.Apply(d)
				if i%5 != 4 {
					continue
				}
				got, want := observe(b.Current()), observe(w.rebuilt(t))
				if got != want {
					t.Fatalf("after %d steps, last %s:\n%s", i+1, describe(d), firstDifference(got, want))
				}
			}
		})
	}
}

func describe(d model.Delta) string {
	var b strings.Builder
	for _, o := range d.Put {
		fmt.Fprintf(&b, "\nput %s %s", o.Key, o.Raw)
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
