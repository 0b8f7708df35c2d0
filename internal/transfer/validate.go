package transfer

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"weir/internal/dialect/apisix"
	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/source/declared"
)

// Validate asks the gateway, before anything is written, which of the objects it
// would refuse by themselves. A gateway that does not have that question
// (APISIX before 3.14) refuses them when they are written.
func (a *Admin) Validate(ctx context.Context, changes []Change) ([]Failure, error) {
	const most = 1 << 19 // bytes; the API takes three times as many
	changed := map[model.Key]Change{}
	var failures []Failure
	part, size := newState(), 0
	ask := func() error {
		found, err := a.validatePart(ctx, part)
		for key, why := range found {
			failures = append(failures, Failure{changed[key], why})
		}
		part, size = newState(), 0
		return err
	}
	for _, c := range changes {
		if c.Action == Deleted || c.Key.Kind == model.KindCostDecoration {
			continue
		}
		changed[c.Key] = c
		v := clone(c.to)
		a.cfg.Schemas.Open(c.Key, v)
		part.Objects[c.Key] = v
		if size += len(v.Append(nil)); size > most {
			if err := ask(); err != nil {
				return nil, err
			}
		}
	}
	if len(part.Objects) > 0 {
		if err := ask(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(failures, func(a, b Failure) int { return compareKeys(a.Key, b.Key) })
	return failures, nil
}

func (a *Admin) validatePart(ctx context.Context, part *State) (map[model.Key]error, error) {
	doc := part.Document()
	const path = "/configs/validate"
	status, text, err := a.send(ctx, http.MethodPost, path, doc.Append(nil))
	if err != nil {
		return nil, err
	}
	answer, err := document.Parse(text)
	switch {
	case status < http.StatusBadRequest, status == http.StatusNotFound:
		return nil, nil
	case status != http.StatusBadRequest || err != nil || !answer.Get("errors").Is(document.Array):
		return nil, a.failed(http.MethodPost, path, refusal(status, answer, text))
	}
	refused := map[model.Key]error{}
	for _, e := range answer.Get("errors").Items {
		kind, _ := e.Get("resource_type").Scalar()
		index, _ := e.Get("index").Scalar()
		why, _ := e.Get("error").Scalar()
		i, err := strconv.Atoi(index)
		items := doc.Get(kind)
		if err != nil || !items.Is(document.Array) || i < 0 || i >= len(items.Items) {
			return nil, fmt.Errorf("%s: POST %s: the answer names an object that was not asked for: %s", a, path, e)
		}
		refused[part.keys(kind)[i]] = &Refusal{status, why}
	}
	return refused, nil
}

// Check reports which changes of a State, made directly in a store, would leave
// what an Admin API refuses: documents that are not valid, that compile refuses
// (it may be nil), or that refer to what is not there.
func (s *Schemas) Check(target *State, changes []Change, compile func(model.Object) error) []Failure {
	checker := apisix.New(apisix.Options{OpenKey: s.ring.OpenKey})
	var failures []Failure
	after := maps.Clone(target.Objects)
	changed := map[model.Key]Change{}
	for _, c := range changes {
		changed[c.Key] = c
		if c.Action == Deleted {
			delete(after, c.Key)
			continue
		}
		after[c.Key] = c.to
		if err := s.check(checker, c, compile); err != nil {
			failures = append(failures, Failure{c, err})
		}
	}
	for key, v := range after {
		for _, to := range references(key, v) {
			if after[to] != nil {
				continue
			}
			if c, ours := changed[key]; ours {
				failures = append(failures, Failure{c, fmt.Errorf("it refers to %s, which is not there", to)})
			} else if c, ours := changed[to]; ours {
				failures = append(failures, Failure{c, fmt.Errorf("%s still refers to it", key)})
			}
		}
	}
	slices.SortStableFunc(failures, func(a, b Failure) int { return compareKeys(a.Key, b.Key) })
	return failures
}

func (s *Schemas) check(checker *apisix.Checker, c Change, compile func(model.Object) error) error {
	v := withID(c.Key, c.to)
	s.Open(c.Key, v)
	raw := v.Append(nil)
	var err error
	if manager, _, ok := strings.Cut(c.Key.ID, "/"); ok && c.Key.Kind == model.KindSecret {
		err = checker.CheckSecret(manager, raw)
	} else {
		err = checker.Check(c.Key.Kind, raw)
	}
	if err != nil || compile == nil {
		return err
	}
	return compile(model.Object{Key: c.Key, Raw: raw})
}

// references are the objects that an object names or lies below.
func references(key model.Key, v *document.Value) []model.Key {
	var out []model.Key
	for _, r := range []struct {
		path string
		kind model.Kind
	}{
		{"upstream_id", model.KindUpstream},
		{"service_id", model.KindService},
		{"plugin_config_id", model.KindPluginConfig},
		{"group_id", model.KindConsumerGroup},
		{"tls.client_cert_id", model.KindSSL},
		{"upstream.tls.client_cert_id", model.KindSSL},
		{"protocol.superior_id", model.KindStreamRoute},
	} {
		if id, ok := declared.ID(dotted(v, r.path)); ok {
			out = append(out, model.Key{Kind: r.kind, ID: id})
		}
	}
	if owner := section(key.Kind); owner != key.Kind {
		name, _, _ := strings.Cut(key.ID, "/")
		out = append(out, model.Key{Kind: owner, ID: name})
	}
	return out
}
