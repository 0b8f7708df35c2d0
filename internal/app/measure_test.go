package app

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"weir/internal/document"
	"weir/internal/profile"
)

// TestOneProfileOfAProcess: what a profile turns on in the process is the process's, so
// that there is one at a time, whichever engine it is of, and nothing stays on.
func TestOneProfileOfAProcess(t *testing.T) {
	o, _ := options(t, t.TempDir(), "")
	o.Example = true
	three, _ := accountOptions(t, t.TempDir(), "data:application/json,"+productsOf(echoing(1, "one.test", 201)))
	o.APIcast = three.APIcast
	g := start(t, o)
	defer stop(t, g)
	for _, kind := range []string{"mutex", "block", "alloc", "cpu"} {
		var wg sync.WaitGroup
		statuses := make([]int, 4)
		for i := range statuses {
			wg.Go(func() {
				path := "/v1/profile?seconds=1&type=" + kind + "&product=" + []string{"false", "true"}[i%2]
				statuses[i], _ = askControl(t, g, "POST", path)
			})
		}
		wg.Wait()
		count := map[int]int{}
		for _, s := range statuses {
			count[s]++
		}
		if count[200] != 1 || count[409] != 3 {
			t.Errorf("%s: %v", kind, statuses)
		}
		if status, body := askControl(t, g, "POST", "/v1/profile?seconds=0.1&type="+kind); status != 200 {
			t.Errorf("%s afterwards: %d %.200s", kind, status, body)
		}
	}
	if n := runtime.SetMutexProfileFraction(-1); n != 0 {
		t.Errorf("one of %d events of locks is recorded still", n)
	}
}

// measured says whether somebody measures.
func measured(t *testing.T, g *Gateway) bool {
	t.Helper()
	status, _ := askControl(t, g, "GET", "/v1/calls?seconds=0.1")
	return status == 409
}

// TestStopEndsMeasuring: who measures for minutes does not hold up the end of the
// process, and is told.
func TestStopEndsMeasuring(t *testing.T) {
	for _, request := range []string{
		"POST /v1/profile?seconds=20", "POST /v1/profile?seconds=20&type=block", "GET /v1/calls?seconds=20", "GET /v1/calls?seconds=20&uri=/none",
	} {
		o, _ := options(t, t.TempDir(), "")
		g := start(t, o)
		method, path, _ := strings.Cut(request, " ")
		type answer struct {
			status int
			body   string
		}
		answered := make(chan answer)
		go func() {
			a := answer{status: 409} // while it is asked whether this one measures
			for a.status == 409 {
				a.status, a.body = askControl(t, g, method, path)
			}
			answered <- a
		}()
		until(t, "it is measured", func() bool { return measured(t, g) })
		http.DefaultClient.CloseIdleConnections()
		if err := g.Stop(context.Background()); err != nil {
			t.Errorf("%s: stop: %v", request, err)
		}
		if a := <-answered; a.status != 503 || !strings.Contains(a.body, errStopping.Error()) {
			t.Errorf("%s: %d %.200s", request, a.status, a.body)
		}
	}
}

// TestClientEndsMeasuring: one that goes away leaves nothing behind: the next may
// measure.
func TestClientEndsMeasuring(t *testing.T) {
	o, _ := options(t, t.TempDir(), "")
	g := start(t, o)
	defer stop(t, g)
	for _, request := range []string{"POST /v1/profile?seconds=200&type=mutex", "GET /v1/calls?seconds=200", "GET /v1/calls?seconds=200&uri=/none"} {
		method, path, _ := strings.Cut(request, " ")
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, method, "http://"+g.Control().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for ctx.Err() == nil {
				if res, err := http.DefaultClient.Do(req); err == nil {
					res.Body.Close()
				}
			}
		}()
		until(t, "it is measured", func() bool { return measured(t, g) })
		cancel()
		<-gone
		until(t, request+": its end", func() bool { return !measured(t, g) })
		var c profile.Capture
		status, body := askControl(t, g, "POST", "/v1/profile?seconds=0.1&type=block")
		if err := json.Unmarshal([]byte(body), &c); status != 200 || err != nil || len(c.Windows) != windows {
			t.Errorf("%s: %d %v", request, status, err)
		}
	}
	if n := runtime.SetMutexProfileFraction(-1); n != 0 {
		t.Errorf("one of %d events of locks is recorded still", n)
	}
}

// TestHasPlantedSecrets: the configuration of no plugin that has a secret is shown in a
// report.
func TestHasPlantedSecrets(t *testing.T) {
	all, err := document.Parse([]byte(plantedPlugins))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range all.Members {
		name, conf := m.Name, m.Value
		holds := strings.Contains(conf.String(), planted)
		if holds {
			n++
		}
		if got := HasSecrets(name, conf); got != holds {
			t.Errorf("%s: %v, want %v", name, got, holds)
		}
	}
	if n < 4 {
		t.Errorf("only %d plugins have secrets", n)
	}
}
