package snapshot

import (
	"errors"
	"log/slog"
	"slices"
	"strings"

	"weir/internal/dialect/apisix"
	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/upstream"
)

// Check compiles an object as applying it would, without keeping anything, and
// returns the first reason why it would not run, in words for whoever wrote it.
// It may be called by many goroutines.
func (a *Applier) Check(o model.Object) error {
	pools := upstream.NewPools()
	defer pools.Close()
	trial := *a.Current().with // everything but what lives
	trial.config.Upstream.Pools = pools
	trial.env.Keep = new(plugin.Keeper).Uses()
	trial.env.Log = slog.New(slog.DiscardHandler)
	trial.env.Upstream = trial.pluginUpstream
	return trial.check(o)
}

func (x *compiler) check(o model.Object) error {
	switch o.Kind {
	case model.KindRoute:
		doc, err := apisix.Route(o.ID, o.Raw)
		if err != nil {
			return err
		}
		if _, err := predicate(doc); err != nil {
			return err
		}
		if err := x.narrow(doc, doc.Hosts); err != nil {
			return err
		}
		return x.checkParts("routes/"+o.ID, doc.Plugins, doc.Upstream)
	case model.KindService:
		doc, err := apisix.Service(o.ID, o.Raw)
		if err != nil {
			return err
		}
		if doc.Script != "" {
			return errLua
		}
		return x.checkParts("services/"+o.ID, doc.Plugins, doc.Upstream)
	case model.KindUpstream:
		doc, err := apisix.Upstream(o.ID, o.Raw)
		if err != nil {
			return err
		}
		return x.checkParts("", nil, doc)
	case model.KindPluginConfig, model.KindConsumerGroup, model.KindGlobalRule:
		doc, err := apisix.PluginSet(o.ID, o.Raw)
		if err != nil {
			return err
		}
		return x.checkParts(o.Key.String(), doc.Plugins, nil)
	case model.KindConsumer, model.KindCredential:
		return x.checkConsumer(o)
	case model.KindStreamRoute:
		return x.checkStreamObject(o)
	case model.KindSSL:
		// APISIX does not verify that certificate and key belong together; the
		// object is stored and its fault is visible.
		return nil
	}
	return nil
}

// checkParts compiles plugins and an inline upstream and closes them.
func (x *compiler) checkParts(owner string, plugins model.Plugins, up *model.Upstream) error {
	p, err := x.compilePlan(sorted(confsOf(owner, plugins)))
	if err != nil {
		return firstFault(err)
	}
	defer p.Release()
	u, err := x.compileInline(up, "", 0)
	if err != nil {
		return err
	}
	if u != nil {
		u.Close()
	}
	return nil
}

func sorted(confs []plan.Conf) []plan.Conf {
	slices.SortFunc(confs, func(x, y plan.Conf) int { return strings.Compare(x.Plugin, y.Plugin) })
	return confs
}

// firstFault is the first of several: clients expect one reason.
func firstFault(err error) error {
	var f *plan.Fault
	if errors.As(err, &f) {
		return f
	}
	return err
}

// checkConsumer checks what a consumer or credential proves itself with, and
// compiles its other plugins.
func (x *compiler) checkConsumer(o model.Object) error {
	var plugins model.Plugins
	if o.Kind == model.KindCredential {
		doc, err := apisix.Credential(o.ID, o.Raw)
		if err != nil {
			return err
		}
		plugins = doc.Plugins
	} else {
		doc, err := apisix.Consumer(o.ID, o.Raw)
		if err != nil {
			return err
		}
		plugins = doc.Plugins
	}
	others := model.Plugins{}
	for _, c := range sorted(confsOf("", plugins)) {
		spec, known := x.all[c.Plugin]
		if !known || spec.CredentialSchema() == nil {
			others[c.Plugin] = c.Raw
			continue
		}
		if _, _, err := spec.DecodeCredential(x.config.Open(spec.Spec, c.Raw, true)); err != nil {
			return err
		}
	}
	return x.checkParts(o.Key.String(), others, nil)
}

// Owner returns who holds a key of an authenticating plugin: a consumer, and
// the id of its credential unless the consumer holds it itself.
func (s *Snapshot) Owner(plugin, key string) (consumer, credential string, ok bool) {
	m := s.index[plugin]
	if m == nil {
		return "", "", false
	}
	r, ok := m.Get(key)
	if !ok {
		return "", "", false
	}
	consumer, rest, _ := strings.Cut(r.id(), "/")
	_, credential, _ = strings.Cut(rest, "/")
	return consumer, credential, true
}
