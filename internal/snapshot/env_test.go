package snapshot

import (
	"errors"
	"testing"

	"weir/internal/model"
)

func TestExists(t *testing.T) {
	b := newBench(t)
	b.put(
		"routes/1", `{"uri":"/a"}`,
		"services/s", `{}`,
		"upstreams/u", `{"nodes":{"127.0.0.1:1":1}}`,
		"consumers/jack", `{"username":"jack"}`,
		"global_rules/g", `{"plugins":{"tag":{}}}`,
	)
	there := func(object string, want bool) {
		t.Helper()
		if got := b.env.Exists(object); got != want {
			t.Errorf("%s exists: %v", object, got)
		}
	}
	for _, object := range []string{"routes/1", "services/s", "upstreams/u", "consumers/jack", "global_rules/g"} {
		there(object, true)
		b.del(object)
		there(object, false)
	}
	there("routes/", false)
	there("", false)
}

func TestModified(t *testing.T) {
	b := newBench(t)
	b.put("routes/1", `{"uri":"/a"}`)
	b.put("services/s", `{}`)
	b.put("routes/2", `{"uri":"/b"}`)
	b.del("routes/2")
	m := b.Work().Modified
	if m[model.KindRoute.Dir()] != 3 || m[model.KindService.Dir()] != 2 || m[model.KindUpstream.Dir()] != 0 {
		t.Errorf("%v", m)
	}
}

func TestReopen(t *testing.T) {
	b := newBench(t)
	bad := errors.New("no")
	remove := b.env.Files.Add(func() error { return bad })
	if err := b.Reopen(); !errors.Is(err, bad) {
		t.Error(err)
	}
	remove()
	if err := b.Reopen(); err != nil {
		t.Error(err)
	}
}
