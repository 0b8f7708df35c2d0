package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/model"
	"weir/internal/transfer"
)

// sayEvery is how often a long run says how far it is.
const sayEvery = time.Second

func exportCommand() *cobra.Command {
	var p places
	var output, format string
	var reveal bool
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write a whole configuration into one document",
		Long: `Write the configuration of a running gateway (--admin, the default), of an etcd
(--etcd) or of a dump FILE as one document in APISIX's standalone form: YAML that
ends with #END, or JSON. Objects are in a fixed order, credentials follow their
consumer, create_time and update_time are left out: two exports of one
configuration are the same.

Secrets are written in the form in which they are stored, encrypted with the keys
of apisix.data_encryption.keyring; weir import opens them. A gateway that reads
the document itself (config_provider yaml) does not: for that, and for any other
reader, --reveal writes them in plain text. What a FILE holds stays as it is
unless --reveal. The Admin API does not give out the private keys of
certificates; an etcd does.

Exit codes: 0 all is well, 1 it failed, 2 it was called in a way that makes no
sense.`,
		Example: `  weir export > weir.yaml
  weir export --etcd http://127.0.0.1:2379 -o backup.json
  weir export --etcd https://etcd:2379 -c apisix/conf/config.yaml --reveal -o apisix.yaml
  etcdctl get /apisix --prefix -w json > dump.json && weir export dump.json`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			asJSON, err := isJSON(format, output)
			if err != nil {
				return err
			}
			if err := p.load(); err != nil {
				return err
			}
			defer p.close()
			wait := startProgress(cmd.ErrOrStderr(), sayEvery)
			defer wait.end()
			from, err := p.source(args, wait.at)
			if err != nil {
				return err
			}
			wait.begin("reading "+from.String(), 0)
			state, err := from.Read(cmd.Context())
			if err != nil {
				return p.explain(from, err)
			}
			p.secrets(from, state, reveal)
			text, err := state.AppendStandalone(nil, asJSON)
			if err != nil {
				return fmt.Errorf("%s: %w", from, err)
			}
			if err := write(cmd.OutOrStdout(), output, text); err != nil {
				return err
			}
			p.sayExported(cmd.ErrOrStderr(), from, state, text, reveal)
			return nil
		},
	}
	p.flags(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "`file` to write, readable by its owner alone; without it standard output")
	cmd.Flags().StringVar(&format, "format", "", "`form`: yaml or json; without it by the name of the output, yaml otherwise")
	cmd.Flags().BoolVar(&reveal, "reveal", false, "write secrets in plain text")
	return cmd
}

func atMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("unexpected argument %q", args[1])}
	}
	return nil
}

// source is the place that a file argument names, or else the flags.
func (p *places) source(args []string, progress func(int)) (place, error) {
	if len(args) == 0 {
		return p.target(progress)
	}
	if p.admin != "" || p.etcd != "" {
		return nil, usageError{fmt.Errorf("%s and a flag are two places; one is meant", args[0])}
	}
	return p.open(args[0], progress)
}

func isJSON(format, output string) (bool, error) {
	switch format {
	case "":
		return filepath.Ext(output) == ".json", nil
	case "yaml", "json":
		return format == "json", nil
	}
	return false, usageError{fmt.Errorf("--format is yaml or json, not %q", format)}
}

// secrets brings the secrets of a state into the form that the user wants. An
// Admin API gives plain ones.
func (p *places) secrets(from place, s *transfer.State, reveal bool) {
	_, isAdmin := from.(*transfer.Admin)
	for key, v := range s.Objects {
		switch {
		case reveal:
			p.schemas.Open(key, v)
		case isAdmin:
			p.schemas.Seal(key, v)
		}
	}
}

func (p *places) sayExported(w io.Writer, from place, s *transfer.State, text []byte, reveal bool) {
	for _, n := range s.Notes {
		fmt.Fprintln(w, "note: "+n)
	}
	for key, why := range s.Broken {
		fmt.Fprintf(w, "note: %s is left out: %s\n", key, why)
	}
	if bytes.Contains(text, []byte("${{")) {
		fmt.Fprintln(w, "note: a text contains ${{, which readers of the document take for a variable")
	}
	form := "secrets are as they are stored; --reveal writes them in plain text"
	if reveal {
		form = "secrets are in plain text"
	}
	fmt.Fprintf(w, "exported %s from %s; %s\n", counted(s), from, form)
}

// counted says how many objects there are of every kind.
func counted(s *transfer.State) string {
	var parts []string
	sum := 0
	for kind, n := range s.Counts() {
		if k := model.Kind(kind); n > 0 && k != model.KindPlugins {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(k.Dir(), "_", " ")))
			sum += n
		}
	}
	if sum == 0 {
		return objects(0)
	}
	return fmt.Sprintf("%s (%s)", objects(sum), strings.Join(parts, ", "))
}

// write writes a whole file or, to standard output, the text.
func write(out io.Writer, path string, text []byte) error {
	if path == "" || path == "-" {
		_, err := out.Write(text)
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".weir-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
