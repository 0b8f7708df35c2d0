package engine

import (
	"strings"

	"weir/internal/plugin"
	"weir/internal/snapshot"
	"weir/internal/threescale"
)

// noProduct answers a request for a host without a product (apicast.md §2.3).
var noProduct = &plugin.Reply{Status: 404, Body: []byte{}}

// nothing answers a request that no policy of the chain has sent anywhere or
// answered, as nginx does when APIcast has let it pass.
var nothing = &plugin.Reply{Status: 200, Body: []byte{}}

// healthPath is asked by whoever wants to know whether an APIcast is there; it
// does not appear in the access log.
const healthPath = "/_threescale/healthz"

var healthy = &plugin.Reply{Status: 200, Body: []byte{}}

// wantHost has a source that loads lazily bring what there is for the host.
func (x *exchange) wantHost() {
	if want := x.engine.WantHost; want != nil && !strings.HasPrefix(x.request.Target, healthPath) {
		want(x.request.Host)
	}
}

// decideProduct finds the product and runs its chain; a Reply answers the
// request.
func (x *exchange) decideProduct(snap *snapshot.Snapshot) *plugin.Reply {
	if !x.readPath() {
		return pages[400]
	}
	if limit := x.engine.MaxBody; limit > 0 && x.request.Length > limit {
		return pages[413]
	}
	if x.ctx.Path == healthPath {
		x.quiet = true
		return healthy
	}
	if x.route = snap.MatchProduct(&x.ctx); x.route == nil {
		return noProduct
	}
	x.ctx.Route = &x.route.Route
	if x.route.Fault != 0 {
		return pages[x.route.Fault]
	}
	x.run.Route = x.route.Plan
	x.observe()
	x.route.Product.Begin(&x.ctx)
	if reply := x.enterProduct(); reply != nil {
		return reply
	}
	if page := x.bodyFault(); page != nil {
		return page
	}
	if x.ctx.To.Upstream == nil {
		return nothing
	}
	return nil
}

func (x *exchange) enterProduct() *plugin.Reply {
	if reply := x.route.Product.Refusal(); reply != nil {
		return reply
	}
	if reply := x.run.Rewrite(&x.ctx); reply != nil && reply != plugin.PhaseOver {
		return reply
	}
	if reply := x.run.Access(&x.ctx); reply != nil {
		return reply
	}
	return x.run.Content(&x.ctx)
}

// leaveProduct gives back what the chain knew of the request.
func (x *exchange) leaveProduct() { threescale.End(&x.ctx) }
