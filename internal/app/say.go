package app

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/model"
)

// say writes a line about the start.
func (g *Gateway) say(what, format string, args ...any) {
	text := fmt.Sprintf("%-8s %s", what, fmt.Sprintf(format, args...))
	fmt.Fprintln(g.Out, strings.TrimRight(text, " "))
}

func (g *Gateway) sayStart() {
	g.say("weir", "%s (%s, %s/%s)", g.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if g.Config.File != "" {
		g.say("config", "%s", g.Config.File)
	}
	g.sayIgnored("configuration keys", Ineffective(g.Config))
	if g.APIcast != nil {
		g.sayIgnored("environment variables of APIcast", g.APIcast.Ignored)
	}
}

func (g *Gateway) sayIgnored(what string, ignored []config.Ignored) {
	if len(ignored) == 0 {
		return
	}
	var parts []string
	for _, i := range ignored {
		parts = append(parts, i.Path+" ("+i.Why+")")
	}
	g.log.Warn(what + " without effect: " + strings.Join(parts, ", "))
}

// sayProducts names the addresses that are open for 3scale.
func (g *Gateway) sayProducts() {
	if g.account != nil {
		g.say("3scale", "%s", strings.Join(g.account.urls, " "))
	}
}

// sayLoading returns a function that tells, once a second, how far a long
// first read is.
func (g *Gateway) sayLoading() func(objects int) {
	last := time.Now()
	return func(n int) {
		g.loading.Store(true)
		select {
		case <-g.loaded:
			return
		default:
		}
		if time.Since(last) >= time.Second {
			last = time.Now()
			g.say("loading", "%d objects", n)
		}
	}
}

func (g *Gateway) sayLoaded() {
	_, sum := g.objects()
	var parts []string
	for k := range model.KindCount {
		if n := g.state.Current().Count(k); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(k.Dir(), "_", " ")))
		}
	}
	detail := ""
	if len(parts) > 0 {
		detail = ": " + strings.Join(parts, ", ")
	}
	g.say("loaded", "%d %s at revision %d%s", sum, plural(sum, "object"), g.state.Current().Revision, detail)
}

// sayReady names every address that is open.
func (g *Gateway) sayReady() {
	for _, s := range []struct {
		name string
		l    net.Listener
	}{{"control", g.control}, {"status", g.status}} {
		if s.l != nil {
			g.say(s.name, "http://%s", s.l.Addr())
		}
	}
	g.sayAdmin()
	if len(g.dataURLs) > 0 {
		g.say("proxy", "%s", strings.Join(g.dataURLs, " "))
	}
	g.sayProducts()
	if len(g.streamAddrs) > 0 {
		var at []string
		for _, a := range g.streamAddrs {
			at = append(at, a.Network()+"://"+a.String())
		}
		g.say("streams", "%s", strings.Join(at, " "))
	}
	g.say("ready", "after %v", time.Since(g.began).Round(time.Millisecond))
}

func (g *Gateway) sayAdmin() {
	if g.admin == nil {
		return
	}
	g.say("admin", "%s", g.adminURL())
	if !g.Config.Deployment.Admin.KeyRequired {
		g.say("key", "none is required (deployment.admin.admin_key_required)")
	}
	for _, k := range g.keys {
		switch {
		case k.file == "":
		case g.ShowKey:
			g.say("key", "%s (%s, in %s)", k.Key.Reveal(), k.Name, k.file)
		default:
			g.say("key", "in %s (%s)", k.file, k.Name)
		}
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
