package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/bench/load"
)

// scrapeOptions are the flags of `weir bench scrape`.
type scrapeOptions struct {
	series      int
	rps         float64
	conns       int
	pairs       int
	phase, rest time.Duration
	seed        uint64
}

const scrapeLong = `Scrape asks whether requests notice that Prometheus reads the metrics of a gateway
with many series. It starts a gateway with so many routes, and the plugin prometheus
as a global rule, that one request to each makes --series lines of metrics. Then it
loads the gateway in phases, in pairs of one in which the metrics are read again and
again and one in which they are not, in an order that is drawn anew for each pair.

The load is open-loop: latencies count from the time at which a request was meant to
be sent. Compared is the p99.9 of the two phases of each pair; the interval is the one
of the sign test, with at least 95 % confidence. "above idle p99.9" is the share of
requests during scrapes that took longer than 99.9 % of the idle ones did: 0.1 % if
nobody notices.`

func scrapeCommand() *cobra.Command {
	o := &scrapeOptions{}
	cmd := figureCommand("scrape", "Latency of requests while the metrics of many series are read", scrapeLong,
		func(ctx context.Context, f *figureOptions, p *progress) (figure, error) { return o.measure(ctx, f, p) })
	f := cmd.Flags()
	f.IntVar(&o.series, "series", 500_000, "lines of metrics")
	f.Float64Var(&o.rps, "rps", 1000, "requests per second")
	f.IntVar(&o.conns, "connections", 32, "keep-alive connections")
	f.IntVar(&o.pairs, "pairs", 12, "pairs of phases")
	f.DurationVar(&o.phase, "phase", 5*time.Second, "length of a phase")
	f.DurationVar(&o.rest, "rest", 100*time.Millisecond, "pause between two scrapes")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the order")
	return cmd
}

func (o *scrapeOptions) check() error {
	switch {
	case o.series < 1 || o.rps <= 0 || o.conns < 1 || o.phase <= 0 || o.rest < 0:
		return errors.New("--series, --rps, --connections and --phase must be positive, --rest cannot be negative")
	case o.pairs < fewestPairs:
		return fmt.Errorf("--pairs %d: an interval of 95 %% confidence needs at least %d", o.pairs, fewestPairs)
	}
	return nil
}

// A ScrapeReport is the outcome of `weir bench scrape`.
type ScrapeReport struct {
	Series  int           `json:"series"`  // lines of metrics that the gateway had
	Scrapes int           `json:"scrapes"` // that were read to their end
	Millis  float64       `json:"scrape_ms"`
	RPS     float64       `json:"rps"`
	Idle    ScrapeLatency `json:"idle"`
	Scraped ScrapeLatency `json:"scraped"`
	P999    Effect        `json:"p999"`               // of the scraped phases against the idle ones
	Above   float64       `json:"above_p999_percent"` // requests during scrapes that took longer than the idle p99.9
	Failed  int           `json:"failed"`
}

// A ScrapeLatency is how long requests took in all phases of one kind, in
// milliseconds.
type ScrapeLatency struct {
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
	Max  float64 `json:"max_ms"`
}

func (r *ScrapeReport) table(w io.Writer) {
	fmt.Fprintf(w, "%d lines of metrics, read %d times, each in %.0f ms; %g requests/s, %d failed; latency in ms\n\n",
		r.Series, r.Scrapes, r.Millis, r.RPS, r.Failed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "phases\tp50\tp99\tp99.9\tmax\t")
	for _, of := range []struct {
		name string
		l    ScrapeLatency
	}{{"idle", r.Idle}, {"scraped", r.Scraped}} {
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t\n", of.name, of.l.P50, of.l.P99, of.l.P999, of.l.Max)
	}
	_ = t.Flush()
	fmt.Fprintf(w, "\np99.9 scraped against idle: %s, %.1f %% confidence\nabove idle p99.9: %.2f %% of the requests during scrapes\n",
		r.P999, r.P999.Confidence, r.Above)
}

// metricsPath is where the metrics are.
const metricsPath = "/apisix/prometheus/metrics"

// linesPerRoute is how many lines one request to a route adds: its status, three
// latencies of sixteen buckets, a sum and a count, and two directions.
const linesPerRoute = 1 + 3*(16+2) + 2

// routes is how many there must be.
func (o *scrapeOptions) routes() int { return (o.series + linesPerRoute - 1) / linesPerRoute }

func (o *scrapeOptions) rules() string {
	var b strings.Builder
	b.WriteString("upstreams:\n  - {id: origin, type: roundrobin, nodes: {\"" + originMark + "\": 1}}\n" +
		"global_rules:\n  - {id: 1, plugins: {prometheus: {}}}\n" +
		"routes:\n  - {id: metrics, uri: " + metricsPath + ", plugins: {public-api: {}}}\n")
	for i := range o.routes() {
		fmt.Fprintf(&b, "  - {id: s%d, uri: /s/%d, upstream_id: origin}\n", i, i)
	}
	return b.String()
}

func (o *scrapeOptions) request(n int) []byte {
	return fmt.Appendf(nil, "GET /s/%d HTTP/1.1\r\nHost: bench.test\r\n\r\n", n%o.routes())
}

func (o *scrapeOptions) measure(ctx context.Context, f *figureOptions, p *progress) (*ScrapeReport, error) {
	if err := o.check(); err != nil {
		return nil, Misuse{err}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	origin := load.ServeOrigin(ln)
	defer origin.Close()
	gateway, stop, err := f.startGateway(ctx, o.rules(), origin.Addr().String())
	if err != nil {
		return nil, err
	}
	defer stop()
	s := &scraper{http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return gateway.dial(ctx) },
	}}}
	defer s.http.CloseIdleConnections()
	r, err := o.run(ctx, gateway, s, p)
	if err != nil {
		return nil, gateway.explain(err)
	}
	return r, nil
}

func (o *scrapeOptions) run(ctx context.Context, gateway *target, s *scraper, p *progress) (*ScrapeReport, error) {
	if err := o.prime(ctx, gateway); err != nil {
		return nil, err
	}
	r := &ScrapeReport{RPS: o.rps}
	var err error
	if r.Series, err = s.scrape(ctx); err != nil {
		return nil, err
	}
	p.say("%d lines of metrics after a request to each of %d routes", r.Series, o.routes())
	if r.Series < o.series {
		return nil, fmt.Errorf("%d lines of metrics, want %d", r.Series, o.series)
	}
	scraped := o.order()
	phases := make([]time.Duration, len(scraped))
	for i := range phases {
		phases[i] = o.phase
	}
	began := time.Now().Add(time.Second)
	g := load.New(load.Config{
		Dial: gateway.dial, Request: o.request, Rate: o.rps, Conns: o.conns, Timeout: requestTimeout, Start: began, Phases: phases,
	})
	var scraping sync.WaitGroup
	scraping.Go(func() { s.follow(ctx, began, o.phase, o.rest, scraped) })
	g.Run(ctx)
	scraping.Wait()
	if err := errors.Join(ctx.Err(), s.err); err != nil {
		return nil, err
	}
	r.Scrapes = s.done
	if s.done > 0 {
		r.Millis = float64(s.took.Milliseconds()) / float64(s.done)
	}
	r.compare(g, scraped)
	return r, nil
}

// prime makes the series.
func (o *scrapeOptions) prime(ctx context.Context, gateway *target) error {
	client := &load.Client{Dial: gateway.dial}
	defer client.Close()
	for i := range o.routes() {
		if status, err := client.Ask(ctx, o.request(i), requestTimeout); err != nil || status != 200 {
			return fmt.Errorf("route %d: status %d: %w", i, status, err)
		}
	}
	return nil
}

// order says of each phase whether the metrics are read in it.
func (o *scrapeOptions) order() (scraped []bool) {
	rng := rand.New(rand.NewPCG(o.seed, 0))
	for range o.pairs {
		first := rng.IntN(2) == 0
		scraped = append(scraped, first, !first)
	}
	return scraped
}

// compare takes the figures of the phases.
func (r *ScrapeReport) compare(g *load.Generator, scraped []bool) {
	var all [2]load.Histogram // idle, scraped
	var ratios []float64
	var pair [2]float64
	for i, on := range scraped {
		s := g.Snapshot(i)
		r.Failed += int(s.Timeouts+s.Errors) + int(s.Latency.Count()-s.Timeouts-s.Status[2])
		kind := 0
		if on {
			kind = 1
		}
		all[kind].Add(&s.Latency)
		pair[kind] = float64(s.Latency.Quantile(0.999))
		if i%2 == 1 {
			ratios = append(ratios, pair[1]/pair[0])
		}
	}
	r.Idle, r.Scraped = latencyOf(&all[0]), latencyOf(&all[1])
	r.P999 = effectOf(ratios)
	r.Above = 100 * float64(all[1].Over(all[0].Quantile(0.999))) / float64(max(all[1].Count(), 1))
}

func latencyOf(h *load.Histogram) ScrapeLatency {
	ms := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
	return ScrapeLatency{ms(h.Quantile(0.5)), ms(h.Quantile(0.99)), ms(h.Quantile(0.999)), ms(h.Max())}
}

// A scraper reads metrics.
type scraper struct {
	http *http.Client
	done int
	took time.Duration
	err  error
}

// scrape reads the metrics and counts their lines.
func (s *scraper) scrape(ctx context.Context) (lines int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://bench.test"+metricsPath, nil)
	if err != nil {
		return 0, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return 0, fmt.Errorf("%s: status %d", metricsPath, resp.StatusCode)
	}
	return countLines(resp.Body)
}

// countLines counts the lines that are no comments. It shares the processors with
// the gateway, so it looks at line feeds only.
func countLines(r io.Reader) (lines int, err error) {
	buf := make([]byte, 64<<10)
	last := byte('\n')
	for {
		n, err := r.Read(buf)
		if b := buf[:n]; n > 0 {
			lines += bytes.Count(b, []byte("\n")) - bytes.Count(b, []byte("\n#"))
			if last == '\n' && b[0] == '#' {
				lines--
			}
			last = b[n-1]
		}
		switch {
		case err == io.EOF:
			return lines, nil
		case err != nil:
			return lines, err
		}
	}
}

// follow scrapes again and again in the phases that say so.
func (s *scraper) follow(ctx context.Context, start time.Time, phase, rest time.Duration, scraped []bool) {
	for i, on := range scraped {
		begin := start.Add(time.Duration(i) * phase)
		if !sleepUntil(ctx, begin) {
			return
		}
		// What would not be over with the phase is not begun: the next may be idle.
		for took := time.Duration(0); on && time.Now().Add(took+took/2).Before(begin.Add(phase)); {
			began := time.Now()
			if _, s.err = s.scrape(ctx); s.err != nil {
				return
			}
			s.done++
			took = time.Since(began)
			s.took += took
			if !sleepUntil(ctx, time.Now().Add(rest)) {
				return
			}
		}
	}
}
