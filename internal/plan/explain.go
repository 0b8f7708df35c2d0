package plan

// A Call is one function that a request runs.
type Call struct {
	Phase string // rewrite, access, content, before_proxy, header, body, encode, log
	*Step
}

// A Reach is how far a request comes before it is answered.
type Reach uint8

// What runs before the answer; the phases of the answer run in any case.
const (
	Nowhere     Reach = iota // nothing: the state itself answers
	ToConsumer               // Rewrite, up to authentication
	ToUpstream               // all but BeforeProxy: there is no upstream
	ThroughHere              // everything
)

// Calls are the functions that run for a request which every one of them lets
// pass as far as it comes, in their order: what a refusal or `_meta.filter` would
// leave out is among them. BeforeProxy is there once, for the first try.
func (r *Run) Calls(reach Reach) []Call {
	c := calls{run: r}
	if reach >= ToConsumer {
		unknown := Run{Global: r.Global, Route: r.Route} // the consumer is not known yet
		c.note("rewrite", unknown.globalSteps(requestsOf(rewriteOf)))
		if r.Route != nil {
			c.note("rewrite", requestsOf(rewriteOf)(r.Route))
		}
	}
	if reach >= ToUpstream {
		if r.merged {
			c.note("rewrite", r.mergedSteps(requestsOf(rewriteOf), nil))
		}
		c.phase("access", requestsOf(accessOf))
		if r.Route != nil {
			c.note("content", requestsOf(contentOf)(r.Route))
		}
	}
	if reach >= ThroughHere {
		c.phase("before_proxy", requestsOf(beforeOf))
	}
	c.phase("header", responsesOf(headerOf))
	c.phase("body", bodiesOf(bodyOf))
	c.phase("encode", bodiesOf(encodeOf))
	c.phase("log", responsesOf(logOf))
	return c.list
}

type calls struct {
	run  *Run
	list []Call
}

func (c *calls) note(phase string, steps []*Step) {
	for _, s := range steps {
		c.list = append(c.list, Call{phase, s})
	}
}

// phase notes a phase of all plans.
func (c *calls) phase(name string, of func(*Plan) []*Step) {
	c.note(name, c.run.globalSteps(of))
	switch {
	case c.run.Route == nil:
	case c.run.merged:
		c.note(name, c.run.mergedSteps(of, c.run.Route))
	default:
		c.note(name, of(c.run.Route))
	}
}

func (r *Run) globalSteps(of func(*Plan) []*Step) (steps []*Step) {
	if r.Global == nil {
		return nil
	}
	for _, s := range of(r.Global) {
		if !r.skipGlobal(s.mark) {
			steps = append(steps, s)
		}
	}
	return steps
}

func (r *Run) mergedSteps(of func(*Plan) []*Step, route *Plan) (steps []*Step) {
	m := r.lists(route)
	for {
		i := m.next(func(p *Plan, i int) *mark {
			if list := of(p); i < len(list) {
				return &list[i].mark
			}
			return nil
		})
		if i < 0 {
			return steps
		}
		steps = append(steps, of(m.plans[i])[m.at[i]-1])
	}
}

func requestsOf(phase func(*Plan) []RequestStep) func(*Plan) []*Step {
	return func(p *Plan) []*Step { return stepsOf(phase(p), RequestStep.step) }
}

func responsesOf(phase func(*Plan) []ResponseStep) func(*Plan) []*Step {
	return func(p *Plan) []*Step { return stepsOf(phase(p), ResponseStep.step) }
}

func bodiesOf(phase func(*Plan) []BodyStep) func(*Plan) []*Step {
	return func(p *Plan) []*Step { return stepsOf(phase(p), BodyStep.step) }
}

func stepsOf[S any](list []S, step func(S) *Step) []*Step {
	steps := make([]*Step, 0, len(list))
	for _, s := range list {
		steps = append(steps, step(s))
	}
	return steps
}

// Replaced are the steps that do not run because a later plan has their plugin:
// the route's for a group's or consumer's, a global rule's for the route's.
func (r *Run) Replaced() (steps []*Step) {
	if r.Global != nil {
		for _, s := range r.Global.steps {
			if r.skipGlobal(s.mark) {
				steps = append(steps, s)
			}
		}
	}
	m := r.lists(r.Route)
	for i, p := range m.plans {
		if p == nil {
			continue
		}
		for _, s := range p.steps {
			if m.over[i].has(s.mark.place) {
				steps = append(steps, s)
			}
		}
	}
	return steps
}

// Plans are the plans of the run: of the global rules, the route, the group and
// the consumer; nil where there is none.
func (r *Run) Plans() [4]*Plan { return [4]*Plan{r.Global, r.Route, r.group, r.consumer} }
