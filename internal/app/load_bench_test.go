package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir/internal/model"
	"weir/internal/source/embed"
)

// BenchmarkStart is the start of a gateway at an etcd with 30,000 routes of 2 kB,
// 60 MB, until it serves them (issue 3: under 5 s):
//
//	go test ./internal/app -run - -bench Start -benchtime 3x
func BenchmarkStart(b *testing.B) {
	const routes, size = 30_000, 2_000
	server, err := embed.Start(b.Context(), embed.Config{Dir: b.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	fill(b, server.Client(), routes, size)
	var spent time.Duration
	for b.Loop() {
		o, _ := options(b, b.TempDir(), "deployment: {etcd: {host: ['"+server.ClientURL()+"']}, admin: {admin_listen: {port: 0}}}\n")
		began := time.Now()
		g := start(b, o)
		spent += time.Since(began)
		b.StopTimer()
		if n := g.state.Current().Count(model.KindRoute); n != routes {
			b.Fatalf("%d routes", n)
		}
		for path, err := range g.state.Current().Faults {
			b.Fatal(path, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := g.Stop(ctx); err != nil {
			b.Fatal(err)
		}
		cancel()
		b.StartTimer()
	}
	b.ReportMetric(spent.Seconds()/float64(b.N), "s/start")
	b.ReportMetric(float64(routes*size)/1e6, "MB")
}

// fill stores routes of about the given size in bytes.
func fill(b *testing.B, c *clientv3.Client, routes, size int) {
	b.Helper()
	for from := 0; from < routes; from += 100 {
		var puts []clientv3.Op
		for i := from; i < min(from+100, routes); i++ {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("/apisix/routes/%d", i), routeOf(i, size)))
		}
		if _, err := c.Txn(b.Context()).Then(puts...).Commit(); err != nil {
			b.Fatal(err)
		}
	}
}

// routeOf is a route whose labels make it as large as it shall be.
func routeOf(i, size int) string {
	doc := fmt.Sprintf(`{"id":"%[1]d","uri":"/api/v1/%[1]d/*","hosts":["h%[2]d.example.com"],"methods":["GET","POST"],`+
		`"plugins":{"key-auth":{},"ip-restriction":{"whitelist":["10.0.0.0/8","127.0.0.1"]}},`+
		`"upstream":{"type":"roundrobin","nodes":{"10.0.0.%[3]d:80":1,"10.0.1.%[3]d:80":1}},"labels":{"team":"t%[3]d"`, i, i%1000, i%250)
	const end = `},"create_time":1700000000,"update_time":1700000000}`
	for n := 0; len(doc)+len(end) < size; n++ {
		doc += fmt.Sprintf(`,"l%d":"%s"`, n, strings.Repeat("x", min(200, max(1, size-len(doc)-len(end)-9))))
	}
	return doc + end
}
