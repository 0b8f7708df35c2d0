package app

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"syscall"

	"weir/internal/config"
	"weir/internal/health"
	"weir/internal/meter"
	"weir/internal/plugins/prometheus"
	"weir/internal/snapshot"
)

// openMetrics makes the numbers of the process known and serves all of them.
func (g *Gateway) openMetrics(ctx context.Context) error {
	if g.Config.Deployment.Provider() == config.NoProvider {
		return nil
	}
	g.describeProcess()
	g.describeStore()
	g.describeConfiguration(g.meter)
	g.describeStreams()
	if !slices.Contains(listed(g.Config), prometheus.Plugin.Name) {
		return nil
	}
	e, err := prometheus.Server(g.Config.PluginAttr[prometheus.Plugin.Name], g.meter)
	if err != nil || e == nil {
		return err
	}
	g.metrics, err = g.serve(ctx, "metrics", e.Addr, e, nil)
	if errors.Is(err, syscall.EADDRINUSE) && !e.Given {
		// Nobody asked for this address: another gateway on the machine may have it.
		g.log.Warn("metrics are not exported: the address is taken", "addr", e.Addr)
		return nil
	}
	if err == nil {
		g.say("metrics", "http://%s%s", g.metrics.Addr(), e.URI)
	}
	return err
}

// listed are the plugins that config.yaml enables.
func listed(c *config.Config) []string {
	if c.Plugins == nil {
		return []string{prometheus.Plugin.Name}
	}
	return c.Plugins
}

// Metrics is the address of the export server; nil: it is off.
func (g *Gateway) Metrics() net.Addr { return addrOf(g.metrics) }

func gauge(name, help string, labels ...string) meter.Desc {
	return meter.Desc{Name: name, Help: help, Kind: meter.Gauge, Labels: labels}
}

func counter(name, help string, labels ...string) meter.Desc {
	return meter.Desc{Name: name, Help: help, Labels: labels}
}

func (g *Gateway) describeProcess() {
	host, _ := os.Hostname() // empty where the system does not know
	g.meter.Func(gauge("node_info", "Info of APISIX node", "hostname", "version"), func(emit func(float64, ...string)) {
		emit(1, host, g.Version)
	})
	g.meter.Func(gauge("upstream_status", "Upstream status from health check", "name", "ip", "port"), g.emitHealth)
	if g.engine == nil {
		return
	}
	g.meter.Func(gauge("http_requests_total", "The total number of client requests since APISIX started"),
		func(emit func(float64, ...string)) { emit(float64(g.engine.Stats().Requests)) })
	g.meter.Func(gauge("nginx_http_current_connections", "Number of HTTP connections", "state"), func(emit func(float64, ...string)) {
		s := g.engine.Stats()
		emit(float64(s.Active), "active")
		emit(float64(s.Accepted), "accepted")
		emit(float64(s.Accepted), "handled")
		emit(0, "reading") // a head that is being read is counted as written
		emit(float64(s.Busy), "writing")
		emit(float64(s.Active-s.Busy), "waiting")
	})
}

func (g *Gateway) emitHealth(emit func(float64, ...string)) {
	g.state.Current().Health(func(c snapshot.Checked) bool {
		name := g.keyPrefix() + "/" + c.Object.String()
		for _, n := range c.Nodes {
			usable := 0.0
			if n.Status == health.Healthy.String() || n.Status == health.MostlyHealthy.String() {
				usable = 1
			}
			emit(usable, name, n.IP, strconv.Itoa(n.Port))
		}
		return true
	})
}

// keyPrefix stands before the keys of objects in the store.
func (g *Gateway) keyPrefix() string {
	if g.Config.Deployment.Provider() == "etcd" {
		return g.Config.Deployment.Etcd.Prefix
	}
	return ""
}

// modified are the directories whose highest revision is shown.
var modified = [...]string{"routes", "services", "ssls", "consumers", "global_rules", "upstreams", "stream_routes", "protos"}

func (g *Gateway) describeStore() {
	if g.Config.Deployment.Provider() != "etcd" {
		return
	}
	g.meter.Func(gauge("etcd_reachable", "Config server etcd reachable from APISIX, 0 is unreachable"), func(emit func(float64, ...string)) {
		reachable := 0.0
		if g.revision().Connected {
			reachable = 1
		}
		emit(reachable)
	})
	g.meter.Func(gauge("etcd_modify_indexes", "Etcd modify index for APISIX keys", "key"), func(emit func(float64, ...string)) {
		revisions := g.state.Work().Modified
		var highest int64
		for _, dir := range modified {
			highest = max(highest, revisions[dir])
			emit(float64(revisions[dir]), dir)
		}
		emit(float64(revisions["global_rules"]), "prev_index")
		emit(float64(highest), "max_modify_index")
		emit(float64(g.revision().Store), "x_etcd_index")
	})
}
