package plan

import (
	"fmt"
	"runtime/debug"

	"weir/internal/plugin"
)

// A Run is what runs for one request. Global rules run before the rest in every
// phase. The rest is the route's plan; once a consumer is known, the plans of
// its group and its own are merged in by priority, and a plugin that one of
// them has replaces the route's (apisix-runtime.md §3.3).
//
// Merging is done while running: it costs a comparison per step, nothing is
// allocated and nothing cached. The zero Run runs nothing.
type Run struct {
	Global *Plan // nil: no global rules
	Route  *Plan // nil: nothing matched

	group, consumer *Plan
	merged          bool // group or consumer has steps
}

// Attach adds the plans of the authenticated consumer; nil: none.
func (r *Run) Attach(group, consumer *Plan) {
	r.group, r.consumer = group, consumer
	r.merged = group != nil && !group.Empty() || consumer != nil && !consumer.Empty()
}

// Rewrite runs the Rewrite phase up to authentication: a Reply answers.
func (r *Run) Rewrite(c *plugin.Ctx) *plugin.Reply {
	if reply := r.global(rewriteOf, c); reply != nil || r.Route == nil {
		return reply
	}
	return run(r.Route.Rewrite, c)
}

// Access runs what follows: the Rewrite phase of the attached plans, then the
// Access phase.
func (r *Run) Access(c *plugin.Ctx) *plugin.Reply {
	if r.merged {
		if reply := r.merge(rewriteOf, nil, c); reply != nil {
			return reply
		}
	}
	if reply := r.global(accessOf, c); reply != nil || r.Route == nil {
		return reply
	}
	if r.merged {
		return r.merge(accessOf, r.Route, c)
	}
	return run(r.Route.Access, c)
}

// Content runs the Content phase of the route's plan.
func (r *Run) Content(c *plugin.Ctx) *plugin.Reply {
	if r.Route == nil {
		return nil
	}
	return run(r.Route.Content, c)
}

// Before runs the BeforeProxy phase.
func (r *Run) Before(c *plugin.Ctx) *plugin.Reply {
	if reply := r.global(beforeOf, c); reply != nil || r.Route == nil {
		return reply
	}
	if r.merged {
		return r.merge(beforeOf, r.Route, c)
	}
	return run(r.Route.BeforeProxy, c)
}

// HasBefore says whether Before can do anything.
func (r *Run) HasBefore() bool {
	for _, p := range [...]*Plan{r.Global, r.Route, r.group, r.consumer} {
		if p != nil && len(p.BeforeProxy) > 0 {
			return true
		}
	}
	return false
}

// Acquire holds every plan of the run beyond the pinned state.
func (r *Run) Acquire() {
	for _, p := range [...]*Plan{r.Global, r.Route, r.group, r.consumer} {
		if p != nil {
			p.Acquire()
		}
	}
}

// Release ends one Acquire.
func (r *Run) Release() {
	for _, p := range [...]*Plan{r.Global, r.Route, r.group, r.consumer} {
		if p != nil {
			p.Release()
		}
	}
}

// HasLog says whether Log can do anything.
func (r *Run) HasLog() bool {
	for _, p := range [...]*Plan{r.Global, r.Route, r.group, r.consumer} {
		if p != nil && len(p.Log) > 0 {
			return true
		}
	}
	return false
}

// Header runs the Header phase.
func (r *Run) Header(c *plugin.Ctx) { r.respond(headerOf, c, nil) }

// Log runs the Log phase, in which plugins end what they have begun: a step that
// panics does not keep others from running. The first panic goes on at the end.
func (r *Run) Log(c *plugin.Ctx) {
	var lost error
	r.respond(logOf, c, &lost)
	if lost != nil {
		panic(lost)
	}
}

// OpenBody appends the filters of the response's body to dst.
func (r *Run) OpenBody(dst []plugin.BodyFilter, c *plugin.Ctx) []plugin.BodyFilter {
	return r.open(bodyOf, dst, c)
}

// OpenEncode appends the encodings of what the filters make of the body.
func (r *Run) OpenEncode(dst []plugin.BodyFilter, c *plugin.Ctx) []plugin.BodyFilter {
	return r.open(encodeOf, dst, c)
}

func (r *Run) open(phase func(*Plan) []BodyStep, dst []plugin.BodyFilter, c *plugin.Ctx) []plugin.BodyFilter {
	open := func(s BodyStep) {
		if f := s.Open(c); f != nil {
			dst = append(dst, f)
		}
	}
	if r.Global != nil {
		for _, s := range phase(r.Global) {
			if !r.skipGlobal(s.Step) {
				open(s)
			}
		}
	}
	if r.Route == nil {
		return dst
	}
	if !r.merged {
		for _, s := range phase(r.Route) {
			open(s)
		}
		return dst
	}
	m := r.lists(r.Route)
	for {
		i := m.next(func(p *Plan, i int) *Step { return stepAt(phase(p), i, BodyStep.step) })
		if i < 0 {
			return dst
		}
		open(phase(m.plans[i])[m.at[i]-1])
	}
}

// The lists of the phases.
func rewriteOf(p *Plan) []RequestStep { return p.Rewrite }
func accessOf(p *Plan) []RequestStep  { return p.Access }
func beforeOf(p *Plan) []RequestStep  { return p.BeforeProxy }
func headerOf(p *Plan) []ResponseStep { return p.Header }
func logOf(p *Plan) []ResponseStep    { return p.Log }
func bodyOf(p *Plan) []BodyStep       { return p.Body }
func encodeOf(p *Plan) []BodyStep     { return p.Encode }

func run(steps []RequestStep, c *plugin.Ctx) *plugin.Reply {
	for i := range steps {
		if c.Skips(steps[i].Plugin) {
			continue
		}
		if r := steps[i].Run(c); r != nil {
			return r
		}
	}
	return nil
}

// skipGlobal says that a global rule's plugin leaves this route to its own.
func (r *Run) skipGlobal(s *Step) bool {
	if !s.PreferRoute || r.Route == nil {
		return false
	}
	return r.Route.set.has(&s.set) ||
		r.group != nil && r.group.set.has(&s.set) || r.consumer != nil && r.consumer.set.has(&s.set)
}

func (r *Run) global(phase func(*Plan) []RequestStep, c *plugin.Ctx) *plugin.Reply {
	if r.Global == nil {
		return nil
	}
	steps := phase(r.Global)
	for i := range steps {
		if r.skipGlobal(steps[i].Step) || c.Skips(steps[i].Plugin) {
			continue
		}
		if reply := steps[i].Run(c); reply != nil {
			return reply
		}
	}
	return nil
}

// respond runs the steps of a phase. If lost is not nil, it gets the first panic
// and all others run.
func (r *Run) respond(phase func(*Plan) []ResponseStep, c *plugin.Ctx, lost *error) {
	if r.Global != nil {
		for _, s := range phase(r.Global) {
			if !r.skipGlobal(s.Step) {
				s.run(c, lost)
			}
		}
	}
	if r.Route == nil {
		return
	}
	if !r.merged {
		for _, s := range phase(r.Route) {
			s.run(c, lost)
		}
		return
	}
	m := r.lists(r.Route)
	for {
		i := m.next(func(p *Plan, i int) *Step { return stepAt(phase(p), i, ResponseStep.step) })
		if i < 0 {
			return
		}
		phase(m.plans[i])[m.at[i]-1].run(c, lost)
	}
}

func (s ResponseStep) run(c *plugin.Ctx, lost *error) {
	if lost != nil {
		defer func() {
			if p := recover(); p != nil && *lost == nil {
				*lost = fmt.Errorf("plugin %s of %s: %v\n%s", s.Plugin, s.Owner, p, debug.Stack())
			}
		}()
	}
	s.Run(c)
}

// merge runs a request phase of the attached plans and of route (nil: without).
func (r *Run) merge(phase func(*Plan) []RequestStep, route *Plan, c *plugin.Ctx) *plugin.Reply {
	m := r.lists(route)
	for {
		i := m.next(func(p *Plan, i int) *Step { return stepAt(phase(p), i, RequestStep.step) })
		if i < 0 {
			return nil
		}
		s := &phase(m.plans[i])[m.at[i]-1]
		if c.Skips(s.Plugin) {
			continue
		}
		if reply := s.Run(c); reply != nil {
			return reply
		}
	}
}

func (s RequestStep) step() *Step  { return s.Step }
func (s ResponseStep) step() *Step { return s.Step }
func (s BodyStep) step() *Step     { return s.Step }

func stepAt[S any](steps []S, i int, step func(S) *Step) *Step {
	if i >= len(steps) {
		return nil
	}
	return step(steps[i])
}

// A merger walks three sorted lists as one: route, group, consumer, each with
// the plugins that a later one replaces left out.
type merger struct {
	plans [3]*Plan
	over  [3]Set // plugins replaced by later plans
	at    [3]int // next step of each list
}

func (r *Run) lists(route *Plan) merger {
	m := merger{plans: [3]*Plan{route, r.group, r.consumer}}
	for i := 1; i >= 0; i-- {
		m.over[i] = m.over[i+1]
		if later := m.plans[i+1]; later != nil {
			m.over[i] = m.over[i].union(&later.set)
		}
	}
	return m
}

// next advances to the step of highest priority and returns its list, or −1 at
// the end. Equal priorities run in the order of the lists.
func (m *merger) next(step func(p *Plan, i int) *Step) int {
	best, priority := -1, 0
	for i, p := range m.plans {
		if p == nil {
			continue
		}
		s := step(p, m.at[i])
		for s != nil && m.over[i].has(&s.set) {
			m.at[i]++
			s = step(p, m.at[i])
		}
		if s != nil && (best < 0 || s.Priority > priority) {
			best, priority = i, s.Priority
		}
	}
	if best >= 0 {
		m.at[best]++
	}
	return best
}
