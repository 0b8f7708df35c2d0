package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/app"
	"weir/internal/model"
	"weir/internal/transfer"
)

// A migrateReport is the outcome of migrate --json.
type migrateReport struct {
	From     string             `json:"from"`
	Config   string             `json:"config,omitempty"`
	Objects  map[string]int     `json:"objects"` // by directory of their kind
	Findings []transfer.Finding `json:"findings"`
	Notes    []string           `json:"notes,omitempty"`
}

func migrateCommand() *cobra.Command {
	var p places
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "migrate [FILE]",
		Short: "Say what of an APISIX configuration would behave differently in Weir",
		Long: `Read the configuration of an APISIX from its etcd (--etcd), from its Admin API
(--admin) or from a FILE (a standalone document, or what etcdctl prints with -w
json), compile it as Weir would, and report what would behave differently:
plugins that this build does not have, Lua, upstreams that it cannot reach,
objects that do not compile, keys that several consumers claim, secrets that the
keyring does not open and, with -c config.yaml, keys without a meaning and
snippets for nginx. Nothing is changed.

The keyring is that of -c config.yaml; without it APISIX's default.

Exit codes: 0 nothing would, 1 there are findings, 2 trouble.`,
		Example: `  weir migrate --etcd http://127.0.0.1:2379 -c apisix/conf/config.yaml
  etcdctl get /apisix --prefix -w json > dump.json && weir migrate dump.json
  weir migrate conf/apisix.yaml --json | jq '.findings[] | select(.group=="plugins")'`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && p.admin == "" && p.etcd == "" {
				return usageError{errors.New("migrate needs a file, --etcd or --admin")}
			}
			report, err := p.migrate(cmd, args)
			switch {
			case err != nil:
				return troubleError{err}
			case asJSON:
				err = printJSON(cmd.OutOrStdout(), report)
			default:
				printFindings(plainWriter{cmd.OutOrStdout()}, report, all)
			}
			if err == nil && len(report.Findings) > 0 {
				return errReported
			}
			return err
		},
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&all, "all", false, "name every object, however many there are")
	return cmd
}

func (p *places) migrate(cmd *cobra.Command, args []string) (migrateReport, error) {
	report := migrateReport{Objects: map[string]int{}, Findings: []transfer.Finding{}}
	if err := p.load(); err != nil {
		return report, err
	}
	defer p.close()
	wait := startProgress(cmd.ErrOrStderr(), sayEvery)
	defer wait.end()
	from, err := p.source(args, wait.at)
	if err != nil {
		return report, err
	}
	wait.begin("reading "+from.String(), 0)
	state, err := from.Read(cmd.Context())
	if err != nil {
		return report, p.explain(from, err)
	}
	report.From, report.Config, report.Notes = from.String(), p.config.File, state.Notes
	for kind, n := range state.Counts() {
		if k := model.Kind(kind); n > 0 && k != model.KindPlugins {
			report.Objects[k.Dir()] = n
		}
	}
	judge, err := app.NewJudge(p.config)
	if err != nil {
		return report, err
	}
	defer judge.Close()
	wait.begin("compiling", 0)
	var settings []transfer.Setting
	for _, i := range app.Ineffective(p.config) {
		settings = append(settings, transfer.Setting{Path: i.Path, Why: i.Why})
	}
	found := p.schemas.Migrate(state, judge.Verdict(state.Stored()), settings)
	report.Findings = append(report.Findings, found...)
	return report, nil
}

func printFindings(w io.Writer, r migrateReport, all bool) {
	sum := 0
	for _, n := range r.Objects {
		sum += n
	}
	fmt.Fprintf(w, "%s: %s\n", r.From, objects(sum))
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note: "+n)
	}
	for _, g := range transfer.Groups() {
		var in []transfer.Finding
		named := map[string]bool{}
		for _, f := range r.Findings {
			if f.Group == g[0] {
				in = append(in, f)
				for _, o := range f.Objects {
					named[o] = true
				}
			}
		}
		if len(in) == 0 {
			continue
		}
		count := ""
		if len(named) > 0 {
			count = " (" + objects(len(named)) + ")"
		}
		fmt.Fprintf(w, "\n%s%s\n", g[1], count)
		for _, f := range in {
			printFinding(w, f, all)
		}
	}
	if len(r.Findings) == 0 {
		fmt.Fprintln(w, "nothing would behave differently")
	}
}

func objects(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

func printFinding(w io.Writer, f transfer.Finding, all bool) {
	if len(f.Objects) == 0 {
		fmt.Fprintf(w, "  %s: %s\n", f.What, f.Effect)
		return
	}
	shown, more := f.Objects, ""
	if len(shown) > mostShown && !all {
		more = fmt.Sprintf(" ... and %d more (--all names them)", len(shown)-mostShown)
		shown = shown[:mostShown]
	}
	fmt.Fprintf(w, "  %s: %s (%d)\n    %s%s\n", plain(f.What), f.Effect, len(f.Objects), plain(strings.Join(shown, " ")), more)
}
