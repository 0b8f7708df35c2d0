package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/app"
	"weir/internal/config"
	"weir/internal/profile"
)

// A profiling is one run of the command.
type profiling struct {
	configFile, control, kind string
	pprof, html, output       string
	seconds                   float64
	product                   bool
}

func profileCommand() *cobra.Command {
	var run profiling
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Show where a running gateway spends its time, by plugin, phase and route",
		Long: `Take a profile of a running gateway under its real load, by its Control API, and show
what plugins, phases, routes and parts of the gateway have of it, next to how often their
functions run for a request. Before that it says whether a profile of CPU can explain
anything: only if the gateway's cores are near saturation while load and upstreams are
steady.

Exit codes: 0 profiled, 1 it failed, 2 it was called in a way that makes no sense.`,
		Example: `  weir profile                              ten seconds of CPU, as a table
  weir profile --seconds 30 --html flame.html
  weir profile --type alloc --pprof alloc.pb.gz
  weir profile --type block -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	run.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&run.kind, "type", "cpu", "`kind` of the profile: cpu, alloc, mutex, block")
	f.StringVar(&run.pprof, "pprof", "", "`file` for the profile in pprof's format")
	f.StringVar(&run.html, "html", "", "`file` for an interactive flame graph, one page that needs nothing else")
	f.StringVarP(&run.output, "output", "o", "text", "`form`: text or json")
	return cmd
}

func (r *profiling) flags(cmd *cobra.Command) {
	configFlag(cmd, &r.configFile)
	f := cmd.Flags()
	f.Float64Var(&r.seconds, "seconds", 10, "how many `seconds`, 0.1 to 300")
	f.BoolVar(&r.product, "product", false, "measure requests to 3scale products of a gateway that has routes, too")
	f.StringVar(&r.control, "control", "", "`URL` of the Control API; without it what the configuration says, http://127.0.0.1:9090 by default")
}

func (r *profiling) run(ctx context.Context, w, note io.Writer) error {
	if r.output != "text" && r.output != "json" {
		return usageError{fmt.Errorf("-o %s: text or json", r.output)}
	}
	c, err := r.capture(ctx, note)
	if err != nil {
		return err
	}
	a, err := profile.Read(bytes.NewReader(c.Profile), c.Type, app.PluginNames())
	if err != nil {
		return err
	}
	if err := r.save(c, a); err != nil {
		return err
	}
	if r.output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			*profile.Analysis
			Findings []profile.Finding `json:"findings"`
			Calls    profile.Calls     `json:"calls"`
			Windows  []profile.Window  `json:"windows"`
		}{a, c.Findings(), c.Calls, c.Windows})
	}
	return a.WriteTable(w, c)
}

func (r *profiling) save(c *profile.Capture, a *profile.Analysis) error {
	if r.pprof != "" {
		if err := os.WriteFile(r.pprof, c.Profile, 0o600); err != nil {
			return err
		}
	}
	if r.html == "" {
		return nil
	}
	var b bytes.Buffer
	if err := a.WriteHTML(&b, "Weir "+c.Version+", "+time.Now().Format(time.DateTime)); err != nil {
		return err
	}
	return os.WriteFile(r.html, b.Bytes(), 0o600)
}

// sensible says what is wrong with the call before anything is measured.
func (r *profiling) sensible(files ...string) error {
	if !(r.seconds >= 0.1 && r.seconds <= 300) {
		return usageError{fmt.Errorf("--seconds %g: 0.1 to 300", r.seconds)}
	}
	for _, name := range append(files, r.pprof, r.html) {
		if name == "" {
			continue
		}
		if dir, err := os.Stat(filepath.Dir(name)); err != nil || !dir.IsDir() {
			return fmt.Errorf("%s: there is no such folder", filepath.Dir(name))
		}
	}
	return nil
}

// capture has the gateway take the profile.
func (r *profiling) capture(ctx context.Context, note io.Writer) (*profile.Capture, error) {
	if err := r.sensible(); err != nil {
		return nil, err
	}
	cfg, err := config.Load(r.configFile, os.Environ())
	if err != nil {
		return nil, err
	}
	root, err := controlRoot(r.control, cfg)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(note, "measuring %s for %g s ...\n", root, r.seconds)
	query := url.Values{"type": {r.kind}, "seconds": {strconv.FormatFloat(r.seconds, 'f', -1, 64)}, "product": {strconv.FormatBool(r.product)}}
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.seconds*float64(time.Second))+patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, root+"/v1/profile?"+query.Encode(), nil)
	if err != nil {
		return nil, usageError{fmt.Errorf("--control: %w", err)}
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, unreachableControl(root, err)
	}
	defer res.Body.Close()
	body, err := controlBody(res)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		err := fmt.Errorf("%s/v1/profile: status %d: %s", root, res.StatusCode, refusal(body))
		if res.StatusCode == http.StatusBadRequest {
			return nil, usageError{err}
		}
		return nil, err
	}
	c := new(profile.Capture)
	if err := json.Unmarshal(body, c); err != nil {
		return nil, errors.Join(fmt.Errorf("%s/v1/profile did not send a profile", root), err)
	}
	return c, nil
}
