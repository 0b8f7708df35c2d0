package app

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"weir/internal/config"
	"weir/internal/source/declared"
	"weir/internal/source/file"
)

// A Problem is an object that would not run, and why.
type Problem struct {
	Object string `json:"object"` // path, "routes/1"
	Error  string `json:"error"`
}

// CheckObjects compiles the objects of the file that a gateway with this
// configuration would follow, and returns its path, how many objects there are
// and what is wrong with them. Where the configuration comes from elsewhere, the
// path is empty. An error says why the file cannot be read. No address is opened.
func CheckObjects(ctx context.Context, c *config.Config) (path string, objects int, problems []Problem, err error) {
	if !fromFile(c) {
		return "", 0, nil, nil
	}
	g := &Gateway{Options: Options{Config: c}, log: slog.New(slog.DiscardHandler)}
	if err := g.openState(ctx); err != nil {
		return "", 0, nil, err
	}
	defer func() {
		if stopped := g.Stop(ctx); err == nil {
			err = stopped
		}
	}()
	cfg := g.fileConfig(c.Deployment.Provider())
	items, wrong, err := file.Load(cfg)
	if err != nil {
		return cfg.Path, 0, nil, err
	}
	state := new(declared.State).Next(items)
	g.state.Apply(state.Since(nil))
	for path, missing := range g.state.Current().Missing {
		wrong[path] = missing
	}
	for path, fault := range g.state.Current().Faults {
		wrong[path] = fault
	}
	for _, path := range slices.Sorted(maps.Keys(wrong)) {
		problems = append(problems, Problem{path, wrong[path].Error()})
	}
	return cfg.Path, state.Len(), problems, nil
}
