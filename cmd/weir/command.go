package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"weir/internal/app"
	"weir/internal/bench"
	"weir/internal/config"
	"weir/internal/echo"
)

func command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "weir",
		Short: "An API gateway whose configuration can change at any rate without its traffic noticing",
		Long: `Weir is an API gateway that understands the configuration of Apache APISIX:
its config.yaml, its Admin API and its objects in etcd.

Exit codes: 0 all is well, 1 it failed, 2 it was called in a way that makes no sense.`,
		Example: `  weir run                     start on an etcd inside the process, data in ./data
  weir run --example           the same, with a route to try
  weir run -c conf/config.yaml start as configured
  weir check -c config.yaml    say what is wrong with a configuration`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	cmd.AddCommand(runCommand(), checkCommand(), versionCommand(), echoCommand(), bench.Command())
	cmd.AddCommand(getCommand(), explainCommand(), profileCommand(), diagnoseCommand(), exportCommand(), importCommand(), diffCommand(), migrateCommand())
	cmd.InitDefaultCompletionCmd()
	strict(cmd)
	cmd.SetHelpCommand(helpCommand(cmd))
	return cmd
}

// strict has every command below cmd take a mistake in its arguments for one in
// usage; a command that only groups others does nothing by itself.
func strict(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		strict(c)
	}
	switch check := cmd.Args; {
	case !cmd.Runnable():
		cmd.Args = noArgs
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			return usageError{fmt.Errorf("a command is missing: %s", strings.Join(names(cmd), ", "))}
		}
	case check != nil:
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
}

func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil {
				err = noArgs(cmd, rest)
			}
			if err != nil {
				return usageError{err}
			}
			return cmd.Help()
		},
	}
}

func names(cmd *cobra.Command) (out []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			out = append(out, c.Name())
		}
	}
	return out
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", args[0])}
	}
	return nil
}

// configFlag is the flag -c.
func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "config", "c", "",
		"configuration `file`; without it "+config.DefaultFile+" if that exists, otherwise the defaults")
}

func runCommand() *cobra.Command {
	var path, apicast string
	var example bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the gateway until a signal ends it",
		Long: `Run the gateway. Unless the configuration names an etcd (deployment.etcd.host),
Weir runs one itself and keeps its data in ./data (weir.store.dir).

SIGTERM, SIGINT and SIGQUIT finish the requests in progress and stop; a second
one stops at once. SIGUSR1 opens the log files anew.

With --apicast, or with THREESCALE_PORTAL_ENDPOINT, THREESCALE_CONFIG_FILE or
APICAST_CONFIGURATION in the environment, Weir serves products of 3scale as
APIcast does, with APIcast's variables; with a configuration file both. SIGHUP
loads the products anew.`,
		Example: `  weir run
  weir run --example
  weir run -c conf/config.yaml
  weir run --apicast products.json
  WEIR_STORE_DIR=/var/lib/weir weir run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if apicast == fromEnvironment && len(args) == 1 {
				return nil
			}
			return noArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				apicast = args[0]
			}
			c, err := config.Load(path, os.Environ())
			if err != nil {
				return err
			}
			products, err := products(c, path != "" || example, apicast)
			if err != nil {
				return err
			}
			return app.Run(cmd.Context(), app.Options{
				Config: c, APIcast: products, Version: version, Out: cmd.OutOrStdout(), ShowKey: terminal(os.Stdout), Example: example,
			})
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVar(&example, "example", false, "run an echo server too and configure a route to it")
	cmd.Flags().StringVar(&apicast, "apicast", "", "serve 3scale products as APIcast does, from a `file`, or as its environment variables say")
	cmd.Flags().Lookup("apicast").NoOptDefVal = fromEnvironment
	return cmd
}

// fromEnvironment is the flag --apicast without a file.
const fromEnvironment = "-"

// products are those of 3scale that are served: if the flag asks for them, or the
// environment has any. Where nothing else is asked for they are all: c then
// becomes the configuration of such a gateway.
func products(c *config.Config, more bool, flag string) (*config.APIcast, error) {
	if flag == "" && !config.UsesAPIcast(os.Environ()) {
		return nil, nil
	}
	if flag == fromEnvironment {
		flag = ""
	}
	a, err := config.LoadAPIcast(flag, os.Environ())
	if err != nil {
		return nil, err
	}
	if c.File == "" && !more {
		a.Alone(c)
	}
	return a, nil
}

// terminal reports that a person reads f.
func terminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// A checkReport is the outcome of check --json.
type checkReport struct {
	OK       bool         `json:"ok"`
	File     string       `json:"file,omitempty"`
	Error    string       `json:"error,omitempty"`
	Embedded bool         `json:"embedded_store"`
	Ignored  []ignoredKey `json:"ignored,omitempty"`

	// Objects is the file with the objects, where the configuration comes from one.
	Objects  string        `json:"objects,omitempty"`
	Count    int           `json:"object_count,omitempty"`
	Problems []app.Problem `json:"problems,omitempty"`
}

type ignoredKey struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

func checkCommand() *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check a configuration file, and the file with the objects that belongs to it",
		Example: `  weir check -c conf/config.yaml
  weir check -c conf/config.yaml --json | jq .ignored`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := checkReport{File: path}
			c, err := config.Load(path, os.Environ())
			if err != nil {
				report.Error = err.Error()
			} else {
				report.OK, report.File, report.Embedded = true, c.File, c.Embedded
				for _, i := range app.Ineffective(c) {
					report.Ignored = append(report.Ignored, ignoredKey{i.Path, i.Why})
				}
				report.Objects, report.Count, report.Problems, err = app.CheckObjects(cmd.Context(), c)
				if err != nil {
					report.Error = err.Error()
				}
				report.OK = err == nil && len(report.Problems) == 0
			}
			if !asJSON {
				printCheck(cmd.OutOrStdout(), cmd.ErrOrStderr(), report)
			} else if err := printJSON(cmd.OutOrStdout(), report); err != nil {
				return err
			}
			if !report.OK {
				return errReported
			}
			return nil
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printCheck(out, problems io.Writer, r checkReport) {
	for _, i := range r.Ignored {
		fmt.Fprintf(problems, "without effect: %s (%s)\n", i.Path, i.Why)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(problems, "%s: %s: %s\n", r.Objects, p.Object, p.Error)
	}
	if r.Error != "" {
		fmt.Fprintln(problems, r.Error)
	}
	if !r.OK {
		fmt.Fprintln(problems, "configuration test failed")
		return
	}
	fmt.Fprintln(out, "configuration test is successful")
}

// A versionReport is the outcome of version --json.
type versionReport struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // commit
	Modified bool   `json:"modified,omitempty"` // the tree had changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := versionReport{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					switch s.Key {
					case "vcs.revision":
						r.Revision = s.Value
					case "vcs.modified":
						r.Modified = s.Value == "true"
					}
				}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "weir %s (%s, %s)\n", r.Version, r.Go, r.Platform)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func echoCommand() *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use:     "echo",
		Short:   "Run an upstream that answers with what it was asked, as JSON",
		Example: `  weir echo --listen 127.0.0.1:1980`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			if _, _, err := net.SplitHostPort(addr); err != nil {
				return usageError{fmt.Errorf("--listen: %w", err)}
			}
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "echo     http://%s\n", l.Addr())
			return echo.Serve(ctx, l)
		},
	}
	cmd.Flags().StringVar(&addr, "listen", "127.0.0.1:1980", "`address` to listen on; port 0: any free one")
	return cmd
}
