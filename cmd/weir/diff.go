package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"weir/internal/model"
	"weir/internal/transfer"
)

// A changeReport is one difference in JSON.
type changeReport struct {
	Object     string              `json:"object"` // "routes/1"
	Action     string              `json:"action"` // created, changed, deleted
	Properties []transfer.Property `json:"properties,omitempty"`
}

// A diffReport is the outcome of diff --json.
type diffReport struct {
	From    string         `json:"from"`
	To      string         `json:"to"`
	Equal   bool           `json:"equal"`
	Changes []changeReport `json:"changes"`
	Notes   []string       `json:"notes,omitempty"`
}

func reported(changes []transfer.Change) []changeReport {
	out := []changeReport{}
	for _, c := range changes {
		out = append(out, changeReport{c.Key.String(), c.Action, c.Properties})
	}
	return out
}

func diffCommand() *cobra.Command {
	var p places
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two configurations",
		Long: `Compare two configurations and show what makes A into B. Each is a file (a
standalone document or what etcdctl prints with -w json), an Admin API
(http://HOST:PORT or https://, with KEY@ in front of the host if it has a key of
its own) or an etcd (etcd://HOST:PORT/PREFIX, etcds:// with TLS).

Times, defaults that are spelled out, the order of members and the encryption of
secrets are no differences. Secrets are not shown. An Admin API does not give out
the private keys of certificates; where a side lacks them they are not compared.

Exit codes: 0 the configurations are the same, 1 they differ, 2 trouble.`,
		Example: `  weir diff apisix.yaml http://127.0.0.1:9180
  weir diff etcd://127.0.0.1:2379/apisix etcd://127.0.0.1:2379/apisix-new
  weir diff before.yaml after.yaml --json | jq '.changes[].object'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{fmt.Errorf("diff needs two configurations, got %d", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			report, changes, err := p.diff(cmd, args)
			switch {
			case err != nil:
				return troubleError{err}
			case asJSON:
				err = printJSON(cmd.OutOrStdout(), report)
			default:
				for _, n := range report.Notes {
					fmt.Fprintln(cmd.ErrOrStderr(), "note: "+n)
				}
				printChanges(plainWriter{cmd.OutOrStdout()}, changes, all)
			}
			if err == nil && !report.Equal {
				return errReported
			}
			return err
		},
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&all, "all", false, "show every object, however many there are")
	return cmd
}

func (p *places) diff(cmd *cobra.Command, args []string) (diffReport, []transfer.Change, error) {
	var report diffReport
	if err := p.load(); err != nil {
		return report, nil, err
	}
	defer p.close()
	wait := startProgress(cmd.ErrOrStderr(), sayEvery)
	defer wait.end()
	var sides [2]*transfer.State
	for i, name := range args {
		at, err := p.open(name, wait.at)
		if err != nil {
			return report, nil, err
		}
		wait.begin("reading "+at.String(), 0)
		if sides[i], err = at.Read(cmd.Context()); err != nil {
			return report, nil, p.explain(at, err)
		}
		args[i] = at.String()
		for _, n := range sides[i].Notes {
			report.Notes = append(report.Notes, args[i]+": "+n)
		}
	}
	report.Notes = append(report.Notes, lacking(args[0], sides[0], sides[1])...)
	report.Notes = append(report.Notes, lacking(args[1], sides[1], sides[0])...)
	wait.begin("comparing", 0)
	changes := p.schemas.Compare(sides[0], sides[1])
	report.From, report.To, report.Equal, report.Changes = args[0], args[1], len(changes) == 0, reported(changes)
	return report, changes, nil
}

// lacking says which objects of another configuration a place cannot have.
func lacking(at string, s, other *transfer.State) (notes []string) {
	counts := other.Counts()
	for kind := range model.KindCount {
		if why, ok := s.Absent[kind]; ok && counts[kind] > 0 {
			notes = append(notes, fmt.Sprintf("%s cannot have %s: %s", at, strings.ReplaceAll(kind.Dir(), "_", " "), why))
		}
	}
	return notes
}

// mostShown is how many objects of one kind and action are shown unless all
// are asked for.
const mostShown = 20

// printChanges shows changes by kind, created, changed and deleted objects, with
// a short form of what differs.
func printChanges(w io.Writer, changes []transfer.Change, all bool) {
	type sort struct {
		kind   model.Kind
		action string
	}
	shown, counts := map[sort]int{}, map[sort]int{}
	for _, c := range changes {
		counts[sort{c.Key.Kind, c.Action}]++
	}
	for _, c := range changes {
		s := sort{c.Key.Kind, c.Action}
		if shown[s]++; all || shown[s] <= mostShown {
			printChange(w, c, all)
		} else if shown[s] == counts[s] {
			fmt.Fprintf(w, "  ... and %d more %s %s (--all shows them)\n", counts[s]-mostShown, c.Key.Kind.Dir(), c.Action)
		}
	}
	for kind := range model.KindCount {
		created, changed, deleted := counts[sort{kind, transfer.Created}], counts[sort{kind, transfer.Changed}], counts[sort{kind, transfer.Deleted}]
		if created+changed+deleted > 0 {
			fmt.Fprintf(w, "%-16s %d created, %d changed, %d deleted\n", kind.Dir(), created, changed, deleted)
		}
	}
}

func printChange(w io.Writer, c transfer.Change, all bool) {
	const most = 10 // properties
	mark := map[string]string{transfer.Created: "+", transfer.Changed: "~", transfer.Deleted: "-"}[c.Action]
	fmt.Fprintf(w, "%s %s\n", mark, c.Key)
	for i, p := range c.Properties {
		if i == most && !all {
			fmt.Fprintf(w, "    ... and %d more properties\n", len(c.Properties)-most)
			return
		}
		switch {
		case p.From == "":
			fmt.Fprintf(w, "    %s: + %s\n", p.Path, short(p.To, all))
		case p.To == "":
			fmt.Fprintf(w, "    %s: - %s\n", p.Path, short(p.From, all))
		default:
			fmt.Fprintf(w, "    %s: %s -> %s\n", p.Path, short(p.From, all), short(p.To, all))
		}
	}
}

// short cuts a long text, unless all of it is wanted.
func short(s string, all bool) string {
	const most = 60
	if all || utf8.RuneCountInString(s) <= most {
		return s
	}
	return strings.TrimSpace(string([]rune(s)[:most])) + "..."
}
