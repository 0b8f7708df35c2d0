package plan

import "weir/internal/plugin"

// Watched is p with functions that tell seen, before they run, which step of which
// phase they are. It is p otherwise: references to it are p's.
func (p *Plan) Watched(seen func(phase string, s *Step) func()) *Plan {
	w := &Plan{steps: p.steps, set: p.set, has: p.has, origin: p}
	w.Rewrite = watchRequests(p.Rewrite, "rewrite", seen)
	w.Access = watchRequests(p.Access, "access", seen)
	w.Content = watchRequests(p.Content, "content", seen)
	w.BeforeProxy = watchRequests(p.BeforeProxy, "before_proxy", seen)
	w.Header = watchResponses(p.Header, "header", seen)
	w.Log = watchResponses(p.Log, "log", seen)
	w.Body = watchBodies(p.Body, "body", seen)
	w.Encode = watchBodies(p.Encode, "encode", seen)
	return w
}

func watchRequests(steps []RequestStep, phase string, seen func(string, *Step) func()) []RequestStep {
	out := make([]RequestStep, len(steps))
	for i, s := range steps {
		note, run := seen(phase, s.Step), s.Run
		out[i] = RequestStep{s.Step, func(c *plugin.Ctx) *plugin.Reply {
			note()
			return run(c)
		}, s.mark}
	}
	return out
}

func watchResponses(steps []ResponseStep, phase string, seen func(string, *Step) func()) []ResponseStep {
	out := make([]ResponseStep, len(steps))
	for i, s := range steps {
		note, run := seen(phase, s.Step), s.Run
		out[i] = ResponseStep{s.Step, func(c *plugin.Ctx) {
			note()
			run(c)
		}, s.mark}
	}
	return out
}

func watchBodies(steps []BodyStep, phase string, seen func(string, *Step) func()) []BodyStep {
	out := make([]BodyStep, len(steps))
	for i, s := range steps {
		note, open := seen(phase, s.Step), s.Open
		out[i] = BodyStep{s.Step, func(c *plugin.Ctx) plugin.BodyFilter {
			note()
			return open(c)
		}, s.mark}
	}
	return out
}

// Wrap replaces every plan of the run.
func (r *Run) Wrap(wrap func(*Plan) *Plan) {
	for _, p := range [...]**Plan{&r.Global, &r.Route, &r.group, &r.consumer} {
		if *p != nil && (*p).origin == nil {
			*p = wrap(*p)
		}
	}
}
