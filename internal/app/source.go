package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"weir/internal/config"
	"weir/internal/control"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugins"
	"weir/internal/source/declared"
	"weir/internal/source/etcd"
	"weir/internal/source/file"
	"weir/internal/source/standalone"
)

// A source delivers the configuration: first the whole state, then every step,
// until ctx ends.
type source interface {
	Run(ctx context.Context, apply func(model.Delta) error) error
}

// openSource opens what the configuration comes from (apisix-config.md
// section 2, provider matrix):
//
//	etcd          an etcd, of Weir's own or another
//	yaml          with the Admin API: documents that are pushed through it
//	yaml, json    without: the file beside config.yaml
func (g *Gateway) openSource(ctx context.Context) error {
	switch p := g.Config.Deployment.Provider(); {
	case p == "etcd":
		if err := g.openStore(ctx); err != nil {
			return err
		}
		g.source = g.store
		return nil
	case p == config.NoProvider:
		return nil
	case fromFile(g.Config):
		return g.openFile(p)
	case p == "yaml":
		return g.openPushed()
	default:
		return fmt.Errorf("config_provider %s is not supported by this version of Weir", p)
	}
}

// fromFile says that the configuration is a file beside config.yaml.
func fromFile(c *config.Config) bool {
	p := c.Deployment.Provider()
	return p == "json" || p == "yaml" && !c.APISIX.EnableAdmin
}

func (g *Gateway) openFile(provider string) error {
	cfg := g.fileConfig(provider)
	g.file = file.New(cfg)
	g.source = g.file
	g.say("file", "%s, watched", cfg.Path)
	return nil
}

func (g *Gateway) fileConfig(provider string) file.Config {
	checker := g.checker()
	path := objectFile(g.Config.File, os.Getenv("APISIX_PROFILE"), provider)
	return file.Config{Path: path, Lookup: os.LookupEnv, Check: checker.Read, Log: g.log}
}

// objectFile is the file with the objects that belongs to a config.yaml.
func objectFile(configFile, profile, ext string) string {
	if configFile == "" {
		configFile = config.DefaultFile
	}
	if profile != "" {
		profile = "-" + profile
	}
	return filepath.Join(filepath.Dir(configFile), "apisix"+profile+"."+ext)
}

func (g *Gateway) openPushed() error {
	checker := g.checker()
	checker.Versioned = true
	var err error
	g.pushed, err = standalone.Open(standalone.Config{Dir: g.Config.Weir.Store.Dir, Checker: &checker, Log: g.log})
	if err != nil {
		return err
	}
	g.source = g.pushed
	g.onStop(func(context.Context) error { return g.pushed.Close() })
	g.say("configs", "pushed through the Admin API, kept in %s", g.Config.Weir.Store.Dir)
	return nil
}

func (g *Gateway) checker() declared.Checker {
	byName := map[string]plugin.Spec{}
	for _, s := range plugins.All() {
		byName[s.Name] = s
	}
	streams := map[string]plugin.StreamSpec{}
	for _, s := range plugins.Streams() {
		streams[s.Name] = s
	}
	return declared.Checker{
		Documents: g.documents,
		Plugins:   byName, Streams: streams, Compile: g.state.Check,
		Enabled: func(name string, stream bool) bool { return g.state.Current().Enabled(name, stream) },
	}
}

// errNotPushed has the words of APISIX's status server.
var errNotPushed = errors.New("worker id: 0 has not received configuration")

// awaited says what configuration the gateway serves without and should not.
func (g *Gateway) awaited() error {
	if g.pushed != nil && g.pushed.Current().LastModified == "" {
		return errNotPushed
	}
	return nil
}

// configurationSource is what an operator is told of where the configuration
// comes from.
func (g *Gateway) configurationSource() control.Source {
	switch {
	case g.file != nil:
		st := g.file.Status()
		return control.Source{Kind: "file", Problem: st.Problem, Skipped: st.Skipped}
	case g.pushed != nil:
		return control.Source{Kind: "configs"}
	case g.store == nil:
		return control.Source{Kind: "etcd"}
	}
	return control.Source{Kind: "etcd", Problem: g.store.Status().LastError}
}

// sourceStatus is how far the delivery of the configuration is.
func (g *Gateway) sourceStatus() etcd.Status {
	switch {
	case g.file != nil:
		st := g.file.Status()
		return etcd.Status{Connected: st.Problem == "" && st.Revision > 0, LastError: st.Problem, StoreRevision: st.Revision}
	case g.pushed != nil:
		return etcd.Status{Connected: true, StoreRevision: g.pushed.Current().Revision}
	}
	return g.store.Status()
}
