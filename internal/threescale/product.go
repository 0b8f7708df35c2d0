package threescale

import (
	"errors"
	"fmt"

	"weir/internal/model"
	"weir/internal/plugin"
)

// A Product is a compiled 3scale product. It is immutable.
type Product struct {
	*model.Product

	// Runtime is what all products of the process share.
	Runtime *Runtime

	Rules []*Rule

	// Upstream is where requests go if no policy chooses; nil: nowhere (404).
	Upstream *Upstream

	// The answers of the product.
	Failed, Missing, LimitsExceeded, NoMatch *plugin.Reply

	// Broken says that a policy of the chain does not work and was left out; it is
	// set before the first request.
	Broken bool

	// Handshake is set while the chain is compiled.
	Handshake Handshake

	// OnBroken answers every request to a broken product (policy on_failed); nil:
	// its other policies run.
	OnBroken *plugin.Reply

	env    plugin.Env
	finder finder
	own    *way // to Upstream, if no policy says how
	ways   ways
}

// Close ends what belongs to the product; no request uses it any more.
func (p *Product) Close() {
	if p.own != nil {
		p.own.upstream.Close()
	}
	p.ways.close()
}

// NewProduct compiles what a product has besides its chain.
func NewProduct(m *model.Product, rt *Runtime, env plugin.Env) (*Product, error) {
	p := &Product{Product: m, Runtime: rt, env: env, finder: newFinder(m)}
	p.Failed, p.Missing = refusal(m.Failed), refusal(m.Missing)
	p.LimitsExceeded, p.NoMatch = refusal(m.LimitsExceeded), refusal(m.NoMatch)
	p.NoMatch.Header = append(p.NoMatch.Header, [2]string{"x-3scale-matched-rules", ""})
	var faults []error
	for _, r := range m.Rules {
		rule, err := NewRule(r)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		p.Rules = append(p.Rules, rule)
	}
	if m.Upstream != "" {
		u, err := NewUpstream(m.Upstream)
		if err != nil {
			faults = append(faults, fmt.Errorf("api_backend: %w", err))
		}
		if p.Upstream = u; u != nil && len(faults) == 0 {
			if p.own, err = p.newWay(u, Connect{}); err != nil {
				return nil, fmt.Errorf("api_backend: %w", err)
			}
		}
	}
	return p, errors.Join(faults...)
}

func refusal(r model.Refusal) *plugin.Reply {
	return &plugin.Reply{Status: r.Status, Header: [][2]string{{"Content-Type", r.ContentType}}, Body: []byte(r.Message)}
}

// Refusal is what answers every request to the product, or nil.
func (p *Product) Refusal() *plugin.Reply {
	if p.Broken {
		return p.OnBroken
	}
	return nil
}

// ProductOf is the product whose policy is being compiled.
func ProductOf(env plugin.Env) *Product { return env.Product.(*Product) }
