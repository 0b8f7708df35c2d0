package conditional

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// wrap has the parts run, in their order, where the test holds.
func wrap(test *threescale.Test, parts []plugin.Phases) (p plugin.Phases) {
	for i := range parts {
		if parts[i].Close != nil {
			p.Close = func() { end(parts) }
		}
	}
	if test.Never() {
		return p
	}
	p.Rewrite = requests(test, parts, func(p *plugin.Phases) request { return p.Rewrite })
	p.Access = requests(test, parts, func(p *plugin.Phases) request { return p.Access })
	p.Content = requests(test, parts, func(p *plugin.Phases) request { return p.Content })
	p.BeforeProxy = requests(test, parts, func(p *plugin.Phases) request { return p.BeforeProxy })
	p.Header = responses(test, parts, func(p *plugin.Phases) response { return p.Header })
	p.Log = responses(test, parts, func(p *plugin.Phases) response { return p.Log })
	p.Body = bodies(test, parts, func(p *plugin.Phases) body { return p.Body })
	p.Encode = bodies(test, parts, func(p *plugin.Phases) body { return p.Encode })
	return p
}

type (
	request  = func(*plugin.Ctx) *plugin.Reply
	response = func(*plugin.Ctx)
	body     = func(*plugin.Ctx) plugin.BodyFilter
)

func requests(test *threescale.Test, parts []plugin.Phases, phase func(*plugin.Phases) request) request {
	var steps []request
	for i := range parts {
		if f := phase(&parts[i]); f != nil {
			steps = append(steps, f)
		}
	}
	if steps == nil {
		return nil
	}
	return func(c *plugin.Ctx) *plugin.Reply {
		if !test.Holds(c) {
			return nil
		}
		for _, f := range steps {
			if reply := f(c); reply != nil {
				return reply
			}
		}
		return nil
	}
}

func responses(test *threescale.Test, parts []plugin.Phases, phase func(*plugin.Phases) response) response {
	var steps []response
	for i := range parts {
		if f := phase(&parts[i]); f != nil {
			steps = append(steps, f)
		}
	}
	if steps == nil {
		return nil
	}
	return func(c *plugin.Ctx) {
		if !test.Holds(c) {
			return
		}
		for _, f := range steps {
			f(c)
		}
	}
}

func bodies(test *threescale.Test, parts []plugin.Phases, phase func(*plugin.Phases) body) body {
	var steps []body
	for i := range parts {
		if f := phase(&parts[i]); f != nil {
			steps = append(steps, f)
		}
	}
	if steps == nil {
		return nil
	}
	return func(c *plugin.Ctx) plugin.BodyFilter {
		if !test.Holds(c) {
			return nil
		}
		var filters series
		for _, open := range steps {
			if f := open(c); f != nil {
				filters = append(filters, f)
			}
		}
		switch len(filters) {
		case 0:
			return nil
		case 1:
			return filters[0]
		}
		return filters
	}
}

// A series is filters one after the other.
type series []plugin.BodyFilter

func (s series) Write(chunk []byte, last bool) []byte {
	for _, f := range s {
		chunk = f.Write(chunk, last)
	}
	return chunk
}

// Size implements plugin.Sized.
func (s series) Size(in int64) int64 {
	for _, f := range s {
		sized, ok := f.(plugin.Sized)
		if !ok {
			return -1
		}
		in = sized.Size(in)
	}
	return in
}

// Watches implements plugin.Witness.
func (s series) Watches() bool {
	for _, f := range s {
		if w, ok := f.(plugin.Witness); ok && w.Watches() {
			return true
		}
	}
	return false
}

func (s series) Close() {
	for _, f := range s {
		if c, ok := f.(interface{ Close() }); ok {
			c.Close()
		}
	}
}
