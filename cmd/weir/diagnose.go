package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/app"
	"weir/internal/config"
	"weir/internal/document"
	"weir/internal/profile"
)

// A diagnosing is one run of the command.
type diagnosing struct {
	profiling
	markdown string
	paired   bool
	pairs    int
}

func diagnoseCommand() *cobra.Command {
	var run diagnosing
	cmd := &cobra.Command{
		Use:   "diagnose",
		Short: "Find out why a running gateway is slow, step by step",
		Long: `Go through five steps on a running gateway under its real load and report what each
shows: whether it is short of CPU at all, what is wide in its profile, which small cost is
multiplied over phases and callers, how often each function runs for a request, and what
a paired run says of the plugin that has most. The gateway's state does not change.

The paired run (weir bench ab) loads this machine with gateways of its own, so that it
happens only with --ab; otherwise its command is in the report.

Exit codes: 0 diagnosed, 1 it failed, 2 it was called in a way that makes no sense.`,
		Example: `  weir diagnose
  weir diagnose --seconds 30 --html report.html --markdown report.md
  weir diagnose --ab --html report.html`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	run.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&run.html, "html", "", "`file` for the report as one page, with the flame graph")
	f.StringVar(&run.markdown, "markdown", "", "`file` for the report as Markdown; without a file it is printed")
	f.BoolVar(&run.paired, "ab", false, "end with a paired run on this machine")
	f.IntVar(&run.pairs, "pairs", 12, "its rounds")
	return cmd
}

func (r *diagnosing) run(ctx context.Context, w, note io.Writer) error {
	if r.pairs < 1 {
		return usageError{fmt.Errorf("--pairs %d: at least 1", r.pairs)}
	}
	if err := r.sensible(r.markdown); err != nil {
		return err
	}
	r.kind = "cpu"
	c, err := r.capture(ctx, note)
	if err != nil {
		return err
	}
	a, err := profile.Read(bytes.NewReader(c.Profile), c.Type, app.PluginNames())
	if err != nil {
		return err
	}
	d := profile.Diagnose("Weir "+c.Version, time.Now(), c, a)
	r.pair(ctx, note, d, &c.Calls)
	return r.write(w, d)
}

func (r *diagnosing) write(w io.Writer, d *profile.Diagnosis) error {
	var md bytes.Buffer
	if err := d.WriteMarkdown(&md); err != nil {
		return err
	}
	if r.html != "" {
		var page bytes.Buffer
		if err := d.WriteHTML(&page); err != nil {
			return err
		}
		if err := os.WriteFile(r.html, page.Bytes(), 0o600); err != nil {
			return err
		}
	}
	if r.markdown != "" {
		return os.WriteFile(r.markdown, md.Bytes(), 0o600)
	}
	_, err := w.Write(md.Bytes())
	return err
}

// pair is the last step.
func (r *diagnosing) pair(ctx context.Context, note io.Writer, d *profile.Diagnosis, calls *profile.Calls) {
	if d.Suspect == "" {
		d.Unpaired("", "There is nothing to compare: no plugin has a share.")
		return
	}
	args := []string{"bench", "ab", "--plugin", d.Suspect, "--pairs", strconv.Itoa(r.pairs), "--states", "off,complete"}
	from, conf := r.configuration(ctx, d.Suspect, calls)
	if conf != "" {
		args = append(args, "--conf", conf)
	}
	if strings.HasPrefix(from, "global_rules/") {
		args = append(args, "--global")
	}
	command := "weir " + quoted(args)
	if !r.paired {
		d.Unpaired(command, "Not run; this command, on an otherwise idle machine, does it.")
		return
	}
	self, err := os.Executable()
	if err != nil {
		d.Unpaired(command, "Not run: "+err.Error())
		return
	}
	fmt.Fprintln(note, command)
	var out bytes.Buffer
	ab := exec.CommandContext(ctx, self, args...)
	ab.Stdout, ab.Stderr = &out, note
	if err := ab.Run(); err != nil {
		d.Unpaired(command, "It failed ("+err.Error()+"): a plugin that needs more than its configuration, such as consumers, is compared by two files of objects (weir bench ab --help).")
		return
	}
	d.Pair(command, out.String())
}

// configuration is where the plugin that runs most often is configured, and how;
// empty where the Control API does not show it, or where it holds secrets.
func (r *diagnosing) configuration(ctx context.Context, plugin string, calls *profile.Calls) (from, conf string) {
	for _, f := range calls.Functions {
		if f.Plugin == plugin {
			from = f.From
			break
		}
	}
	kind, id, ok := strings.Cut(from, "/")
	if !ok || kind != "routes" && kind != "services" {
		return from, ""
	}
	body, err := r.object(ctx, "/v1/"+strings.TrimSuffix(kind, "s")+"/"+id)
	if err != nil {
		return from, ""
	}
	v, err := document.Parse(body)
	if err != nil {
		return from, ""
	}
	raw := v.Get("value").Get("plugins").Get(plugin)
	if raw == nil || app.HasSecrets(plugin, raw) {
		return from, ""
	}
	return from, raw.String()
}

// object reads an object from the Control API.
func (r *diagnosing) object(ctx context.Context, path string) ([]byte, error) {
	cfg, err := config.Load(r.configFile, os.Environ())
	if err != nil {
		return nil, err
	}
	root, err := controlRoot(r.control, cfg)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, root+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := (&http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, errors.New(res.Status)
	}
	body, err := controlBody(res)
	if err == nil && !json.Valid(body) {
		err = errors.New("no JSON")
	}
	return body, err
}

// quoted are arguments as a shell takes them.
func quoted(args []string) string {
	var list []string
	for _, a := range args {
		if strings.ContainsAny(a, " \"{}[]*$&|;<>()'") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		list = append(list, a)
	}
	return strings.Join(list, " ")
}
