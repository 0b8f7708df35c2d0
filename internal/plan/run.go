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
	merged          bool  // group or consumer has steps
	attached        phase // that group or consumer have

	at *Step // whose function runs; nil: none
}

// At is the plugin whose function runs, or has not returned because it panicked;
// nil: none does.
func (r *Run) At() *Step { return r.at }

// Enter says that a function of s runs, one that was opened as a Filter; nil: that
// it has returned.
func (r *Run) Enter(s *Step) { r.at = s }

// A Filter is a filter of the response's body and the step that opened it.
type Filter struct {
	plugin.BodyFilter
	*Step
}

// Attach adds the plans of the authenticated consumer; nil: none.
func (r *Run) Attach(group, consumer *Plan) {
	r.group, r.consumer = group, consumer
	r.merged, r.attached = false, 0
	for _, p := range [...]*Plan{group, consumer} {
		if p != nil && !p.Empty() {
			r.merged, r.attached = true, r.attached|p.has
		}
	}
}

// Rewrite runs the Rewrite phase up to authentication: a Reply answers.
func (r *Run) Rewrite(c *plugin.Ctx) *plugin.Reply {
	if reply := r.global(rewriteOf, c); reply != nil || r.Route == nil {
		return reply
	}
	return r.run(rewriteOf(r.Route), c)
}

// Access runs what follows: the Rewrite phase of the attached plans, then the
// Access phase.
func (r *Run) Access(c *plugin.Ctx) *plugin.Reply {
	if r.attached&rewrite != 0 {
		if reply := r.merge(rewriteOf, nil, c); reply != nil {
			return reply
		}
	}
	if reply := r.global(accessOf, c); reply != nil || r.Route == nil {
		return reply
	}
	if r.merges(access) {
		return r.merge(accessOf, r.Route, c)
	}
	return r.run(accessOf(r.Route), c)
}

// Content runs the Content phase of the route's plan.
func (r *Run) Content(c *plugin.Ctx) *plugin.Reply {
	if r.Route == nil {
		return nil
	}
	return r.run(contentOf(r.Route), c)
}

// Before runs the BeforeProxy phase.
func (r *Run) Before(c *plugin.Ctx) *plugin.Reply {
	if reply := r.global(beforeOf, c); reply != nil || r.Route == nil {
		return reply
	}
	if r.merges(before) {
		return r.merge(beforeOf, r.Route, c)
	}
	return r.run(beforeOf(r.Route), c)
}

// HasBefore says whether Before can do anything.
func (r *Run) HasBefore() bool { return r.has(before) }

// has says whether a phase may have steps.
func (r *Run) has(of phase) bool {
	return (r.attached|r.Global.phases()|r.Route.phases())&of != 0
}

func (p *Plan) phases() phase {
	if p == nil {
		return 0
	}
	return p.has
}

// merges says whether the attached plans have a part in a phase, be it only that
// they replace something of the route's.
func (r *Run) merges(of phase) bool { return r.merged && (r.attached|r.Route.phases())&of != 0 }

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
func (r *Run) HasLog() bool { return r.has(log) }

// Header runs the Header phase.
func (r *Run) Header(c *plugin.Ctx) { r.respond(header, headerOf, c, nil) }

// Log runs the Log phase, in which plugins end what they have begun: a step that
// panics does not keep others from running. The first panic goes on at the end.
func (r *Run) Log(c *plugin.Ctx) {
	var lost *Lost
	r.respond(log, logOf, c, &lost)
	if lost != nil {
		panic(lost)
	}
}

// A Lost is the panic of a step, and where it happened.
type Lost struct {
	*Step
	Panic any
	Stack []byte
}

// Error implements error.
func (l *Lost) Error() string {
	return fmt.Sprintf("plugin %s of %s: %v\n%s", l.Plugin, l.Owner, l.Panic, l.Stack)
}

// OpenBody appends the filters of the response's body to dst.
func (r *Run) OpenBody(dst []Filter, c *plugin.Ctx) []Filter {
	return r.open(body, bodyOf, dst, c)
}

// OpenEncode appends the encodings of what the filters make of the body.
func (r *Run) OpenEncode(dst []Filter, c *plugin.Ctx) []Filter {
	return r.open(encode, encodeOf, dst, c)
}

func (r *Run) open(of phase, list func(*Plan) []BodyStep, dst []Filter, c *plugin.Ctx) []Filter {
	open := func(s BodyStep) {
		r.at = s.Step
		if f := s.Open(c); f != nil {
			dst = append(dst, Filter{f, s.Step})
		}
		r.at = nil
	}
	if r.Global != nil {
		for _, s := range list(r.Global) {
			if !r.skipGlobal(s.mark) {
				open(s)
			}
		}
	}
	if r.Route == nil {
		return dst
	}
	if !r.merges(of) {
		for _, s := range list(r.Route) {
			open(s)
		}
		return dst
	}
	m := r.lists(r.Route)
	for {
		i := m.next(func(p *Plan, i int) *mark { return markAt(list(p), i) })
		if i < 0 {
			return dst
		}
		open(list(m.plans[i])[m.at[i]-1])
	}
}

// The lists of the phases. Where a plan has none it says so itself, which saves
// the look at the list.
func rewriteOf(p *Plan) []RequestStep { return listOf(p, rewrite, &p.Rewrite) }
func accessOf(p *Plan) []RequestStep  { return listOf(p, access, &p.Access) }
func contentOf(p *Plan) []RequestStep { return listOf(p, content, &p.Content) }
func beforeOf(p *Plan) []RequestStep  { return listOf(p, before, &p.BeforeProxy) }
func headerOf(p *Plan) []ResponseStep { return listOf(p, header, &p.Header) }
func logOf(p *Plan) []ResponseStep    { return listOf(p, log, &p.Log) }
func bodyOf(p *Plan) []BodyStep       { return listOf(p, body, &p.Body) }
func encodeOf(p *Plan) []BodyStep     { return listOf(p, encode, &p.Encode) }

func listOf[S any](p *Plan, of phase, list *[]S) []S {
	if p.has&of == 0 {
		return nil
	}
	return *list
}

func (r *Run) run(steps []RequestStep, c *plugin.Ctx) *plugin.Reply {
	for i := range steps {
		if steps[i].skipped(c) {
			continue
		}
		if reply := r.step(&steps[i], c); reply != nil {
			return reply
		}
	}
	return nil
}

func (r *Run) step(s *RequestStep, c *plugin.Ctx) *plugin.Reply {
	r.at = s.Step
	reply := s.Run(c)
	r.at = nil
	return reply
}

// skipped says that the step was asked to be left out.
func (s *RequestStep) skipped(c *plugin.Ctx) bool { return c.Skipping() && c.Skips(s.Plugin) }

// skipGlobal says that a global rule's plugin leaves this route to its own.
func (r *Run) skipGlobal(m mark) bool {
	if !m.prefer || r.Route == nil {
		return false
	}
	return r.Route.set.has(m.place) ||
		r.group != nil && r.group.set.has(m.place) || r.consumer != nil && r.consumer.set.has(m.place)
}

func (r *Run) global(list func(*Plan) []RequestStep, c *plugin.Ctx) *plugin.Reply {
	if r.Global == nil {
		return nil
	}
	steps := list(r.Global)
	for i := range steps {
		if r.skipGlobal(steps[i].mark) || steps[i].skipped(c) {
			continue
		}
		if reply := r.step(&steps[i], c); reply != nil {
			return reply
		}
	}
	return nil
}

// respond runs the steps of a phase. If lost is not nil, it gets the first panic
// and all others run.
func (r *Run) respond(of phase, list func(*Plan) []ResponseStep, c *plugin.Ctx, lost **Lost) {
	if r.Global != nil {
		for _, s := range list(r.Global) {
			if !r.skipGlobal(s.mark) {
				s.run(r, c, lost)
			}
		}
	}
	if r.Route == nil {
		return
	}
	if !r.merges(of) {
		for _, s := range list(r.Route) {
			s.run(r, c, lost)
		}
		return
	}
	m := r.lists(r.Route)
	for {
		i := m.next(func(p *Plan, i int) *mark { return markAt(list(p), i) })
		if i < 0 {
			return
		}
		list(m.plans[i])[m.at[i]-1].run(r, c, lost)
	}
}

func (s ResponseStep) run(r *Run, c *plugin.Ctx, lost **Lost) {
	if lost != nil {
		defer func() {
			if p := recover(); p != nil && *lost == nil {
				*lost = &Lost{s.Step, p, debug.Stack()}
			}
		}()
	}
	r.at = s.Step
	s.Run(c)
	r.at = nil
}

// merge runs a request phase of the attached plans and of route (nil: without).
func (r *Run) merge(list func(*Plan) []RequestStep, route *Plan, c *plugin.Ctx) *plugin.Reply {
	m := r.lists(route)
	for {
		i := m.next(func(p *Plan, i int) *mark { return markAt(list(p), i) })
		if i < 0 {
			return nil
		}
		s := &list(m.plans[i])[m.at[i]-1]
		if s.skipped(c) {
			continue
		}
		if reply := r.step(s, c); reply != nil {
			return reply
		}
	}
}

func (s RequestStep) step() *Step  { return s.Step }
func (s ResponseStep) step() *Step { return s.Step }
func (s BodyStep) step() *Step     { return s.Step }

func (m *mark) self() *mark { return m }

// markAt is the mark of step i, nil behind the end.
func markAt[S any, P interface {
	*S
	self() *mark
}](steps []S, i int) *mark {
	if i >= len(steps) {
		return nil
	}
	return P(&steps[i]).self()
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
func (m *merger) next(step func(p *Plan, i int) *mark) int {
	best, priority := -1, 0
	for i, p := range m.plans {
		if p == nil {
			continue
		}
		s := step(p, m.at[i])
		for s != nil && m.over[i].has(s.place) {
			m.at[i]++
			s = step(p, m.at[i])
		}
		if s != nil && (best < 0 || s.priority > priority) {
			best, priority = i, s.priority
		}
	}
	if best >= 0 {
		m.at[best]++
	}
	return best
}
