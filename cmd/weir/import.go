package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/app"
	"weir/internal/transfer"
)

// An importReport is the outcome of import --json.
type importReport struct {
	Target  string         `json:"target"`
	DryRun  bool           `json:"dry_run"`
	Changes []changeReport `json:"changes"`
	Kept    int            `json:"kept"` // objects that the file lacks and --delete=false keeps
	Done    int            `json:"done"`
	Failed  []failure      `json:"failed,omitempty"`
	Left    []string       `json:"left,omitempty"` // not tried, because something failed
	Notes   []string       `json:"notes,omitempty"`
}

type failure struct {
	Object string `json:"object"`
	Error  string `json:"error"`
}

// An importing is one run of the command.
type importing struct {
	places
	dryRun, yes, deleting, asJSON, all, check bool

	in       *os.File
	out, err io.Writer
	wait     *progress
	report   importReport
}

func importCommand() *cobra.Command {
	var run importing
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Make a gateway or an etcd have the configuration of a file",
		Long: `Compare a file (a standalone document in YAML or JSON, or what etcdctl prints
with -w json; "-" is standard input) with a running gateway (--admin, the default)
or an etcd (--etcd), show the differences, and apply them: what others refer to
first, deletions last and in the reverse order. What is the same is not touched,
so that a second import changes nothing.

Objects that the file lacks are deleted unless --delete=false. All objects are
checked before the first is written: through the Admin API by the gateway, for an
etcd by this build (--check=false writes what it does not understand). Encrypted
secrets in the file are opened with apisix.data_encryption.keyring; in an etcd
they are stored encrypted.

Exit codes: 0 the target has the configuration (or would, with --dry-run), 1 it
failed or was refused, 2 it was called in a way that makes no sense.`,
		Example: `  weir import apisix.yaml --dry-run
  weir import apisix.yaml --yes
  weir import backup.json --etcd http://127.0.0.1:2379 --prefix /apisix --delete=false
  weir export --etcd http://old:2379 | weir import - --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("import needs one file, got %d", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			run.in, run.out, run.err = os.Stdin, cmd.OutOrStdout(), cmd.ErrOrStderr()
			return run.run(cmd.Context(), args[0])
		},
	}
	run.flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&run.dryRun, "dry-run", false, "show the differences and change nothing")
	f.BoolVarP(&run.yes, "yes", "y", false, "do not ask before changing")
	f.BoolVar(&run.deleting, "delete", true, "delete what the file lacks")
	f.BoolVar(&run.check, "check", true, "check objects before writing them into an etcd")
	f.BoolVar(&run.asJSON, "json", false, "print JSON")
	f.BoolVar(&run.all, "all", false, "show every object, however many there are")
	return cmd
}

// A target can be read and written.
type target interface {
	place
	transfer.Target
}

func (r *importing) run(ctx context.Context, file string) error {
	if err := r.load(); err != nil {
		return err
	}
	defer r.close()
	r.wait = startProgress(r.err, sayEvery)
	defer r.wait.end()
	at, changes, state, err := r.compare(ctx, file)
	if err != nil {
		return err
	}
	if !r.asJSON {
		for _, n := range r.report.Notes {
			fmt.Fprintln(r.err, "note: "+n)
		}
		printChanges(plainWriter{r.out}, changes, r.all)
		if r.report.Kept > 0 {
			fmt.Fprintf(r.out, "%s that the file lacks stay\n", objects(r.report.Kept))
		}
	}
	err = r.apply(ctx, at, changes, state)
	if r.asJSON {
		err = errors.Join(printJSON(r.out, r.report), err)
	}
	if err != nil {
		return r.explain(at, err)
	}
	if len(r.report.Failed) > 0 {
		return errReported
	}
	return nil
}

// compare reads both sides and finds the changes to make.
func (r *importing) compare(ctx context.Context, file string) (target, []transfer.Change, *transfer.State, error) {
	at, err := r.target(r.wait.at)
	if err != nil {
		return nil, nil, nil, err
	}
	from := transfer.File{Path: file, Prefix: r.etcdPrefix(), Environ: os.Environ()}
	r.wait.begin("reading "+from.String(), 0)
	want, err := from.Read(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	r.wait.begin("reading "+at.String(), 0)
	have, err := at.Read(ctx)
	if err != nil {
		return nil, nil, nil, r.explain(at, err)
	}
	r.report = importReport{Target: at.String(), DryRun: r.dryRun, Notes: append(want.Notes, have.Notes...)}
	r.report.Notes = append(r.report.Notes, lacking(at.String(), have, want)...)
	for key, why := range want.Broken {
		return nil, nil, nil, fmt.Errorf("%s: %s cannot be read: %s", from, key, why)
	}
	r.wait.begin("comparing", 0)
	var changes []transfer.Change
	for _, c := range r.schemas.Compare(have, want) {
		if c.Action == transfer.Deleted && !r.deleting {
			r.report.Kept++
			continue
		}
		changes = append(changes, c)
	}
	r.report.Changes = reported(changes)
	return at.(target), changes, have, nil
}

func (r *importing) apply(ctx context.Context, at target, changes []transfer.Change, have *transfer.State) error {
	if len(changes) == 0 {
		r.say("nothing to change in %s", at)
		return nil
	}
	refused, err := r.refused(ctx, at, changes, have)
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		r.fail(refused)
		r.say("%d of %s would be refused; nothing was changed", len(refused), changesOf(len(changes)))
		return nil
	}
	if r.dryRun {
		r.say("%s to %s; nothing was changed (--dry-run)", changesOf(len(changes)), at)
		return nil
	}
	if ok, err := r.agreed(len(changes), at); err != nil || !ok {
		return err
	}
	r.wait.begin("writing "+at.String(), len(changes))
	result, err := r.make(ctx, at, changes, have)
	r.report.Done = len(result.Done)
	r.fail(result.Failed)
	for _, c := range result.Left {
		r.report.Left = append(r.report.Left, c.Key.String())
	}
	r.say("%d of %s made in %s", len(result.Done), changesOf(len(changes)), at)
	if n := len(result.Left); n > 0 {
		r.say("not tried: %s; another import goes on from here", changesOf(n))
	}
	return err
}

// make makes the changes, one by one unless the gateway takes them as a whole.
func (r *importing) make(ctx context.Context, at target, changes []transfer.Change, have *transfer.State) (transfer.Result, error) {
	a, ok := at.(*transfer.Admin)
	if !ok || !a.Pushed() {
		return transfer.Apply(ctx, at, changes, r.wait.at)
	}
	if err := a.Push(ctx, have.With(changes)); err != nil {
		return transfer.Result{Left: changes}, err
	}
	return transfer.Result{Done: changes}, nil
}

// refused asks which changes cannot be made.
func (r *importing) refused(ctx context.Context, at target, changes []transfer.Change, have *transfer.State) ([]transfer.Failure, error) {
	r.wait.begin("checking", 0)
	if a, ok := at.(*transfer.Admin); ok {
		return a.Validate(ctx, changes)
	}
	if !r.check {
		return nil, nil
	}
	judge, err := app.NewJudge(r.config)
	if err != nil {
		return nil, err
	}
	defer judge.Close()
	return r.schemas.Check(have, changes, judge.Check), nil
}

// agreed asks the user, unless that was said already.
func (r *importing) agreed(n int, at target) (bool, error) {
	if r.yes {
		return true, nil
	}
	if !terminal(r.in) || r.asJSON {
		return false, usageError{errors.New("nobody can be asked here: --yes changes, --dry-run only shows")}
	}
	fmt.Fprintf(r.err, "Make %s in %s? [y/N] ", changesOf(n), at)
	line, err := bufio.NewReader(r.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if a := strings.ToLower(strings.TrimSpace(line)); a == "y" || a == "yes" {
		return true, nil
	}
	return false, errors.New("nothing was changed")
}

// fail notes what was refused and shows it.
func (r *importing) fail(failures []transfer.Failure) {
	for i, f := range failures {
		r.report.Failed = append(r.report.Failed, failure{f.Key.String(), f.Err.Error()})
		switch {
		case r.asJSON:
		case i < mostShown || r.all:
			fmt.Fprintf(r.err, "%s: %v\n", f.Key, f.Err)
		case i == mostShown:
			fmt.Fprintf(r.err, "... and %d more (--all shows them)\n", len(failures)-mostShown)
		}
	}
}

func changesOf(n int) string {
	if n == 1 {
		return "1 change"
	}
	return fmt.Sprintf("%d changes", n)
}

func (r *importing) say(format string, args ...any) {
	if !r.asJSON {
		fmt.Fprintf(r.out, format+"\n", args...)
	}
}
