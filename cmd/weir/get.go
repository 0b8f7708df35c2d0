package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/transfer"
)

// A getting is one run of the command.
type getting struct {
	places
	output            string
	effective, reveal bool
	control           string
}

func getCommand() *cobra.Command {
	var run getting
	cmd := &cobra.Command{
		Use:   "get KIND [ID]",
		Short: "Show objects of a running gateway",
		Long: `Show what a running gateway has, by its Admin API: all objects of a KIND, or one.

KIND is routes, services, upstreams, consumers, consumer_groups, plugin_configs,
global_rules, plugin_metadata, ssls, stream_routes, protos, secrets, or one of
these:

  credentials CONSUMER      what a consumer proves itself with
  credentials CONSUMER/ID   one of them
  plugins                   the plugins of the gateway, the first to run first
  status                    how far the gateway is with its configuration

Secrets are hidden unless --reveal.

Exit codes: 0 all is well, 1 it failed, 2 it was called in a way that makes no
sense.`,
		Example: `  weir get routes
  weir get route mine -o json
  weir get route mine --effective
  weir get credentials jack
  weir get status`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usageError{errors.New("get needs a kind, for instance routes")}
			case len(args) > 2:
				return usageError{fmt.Errorf("unexpected argument %q", args[2])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return run.run(cmd.Context(), cmd.OutOrStdout(), args)
		},
	}
	run.adminFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&run.output, "output", "o", "", "`form`: table, yaml or json; without it a table of several objects and yaml of one")
	f.BoolVar(&run.effective, "effective", false, "of a route: what it does with its service and plugin_config, and where that comes from")
	f.BoolVar(&run.reveal, "reveal", false, "show secrets")
	f.StringVar(&run.control, "control", "", "`URL` of the Control API, for status; without it what the configuration says, http://127.0.0.1:9090 by default")
	return cmd
}

// kindNamed finds the kind that a user means by a word.
func kindNamed(word string) (model.Kind, bool) {
	word = strings.ReplaceAll(strings.ToLower(word), "-", "_")
	for k := range model.KindCount {
		if word == k.Dir() || word == strings.ReplaceAll(k.String(), " ", "_") {
			return k, k != model.KindCostDecoration && k != model.KindPlugins
		}
	}
	return 0, false
}

func (r *getting) run(ctx context.Context, w io.Writer, args []string) error {
	switch r.output {
	case "", "table", "yaml", "json":
	default:
		return usageError{fmt.Errorf("-o is table, yaml or json, not %q", r.output)}
	}
	kind, known := kindNamed(args[0])
	id := ""
	if len(args) == 2 {
		id = args[1]
	}
	switch {
	case !known && args[0] != "status" && args[0] != "plugins":
		return usageError{fmt.Errorf("there is no kind %q; see weir get --help", args[0])}
	case !known && id != "":
		return usageError{fmt.Errorf("unexpected argument %q", id)}
	case r.effective && (kind != model.KindRoute || !known || id == ""):
		return usageError{errors.New("--effective is for one route: weir get route ID --effective")}
	case known && kind == model.KindCredential && id == "":
		return usageError{errors.New("whose credentials? weir get credentials CONSUMER")}
	}
	if err := r.load(); err != nil {
		return err
	}
	defer r.close()
	if args[0] == "status" {
		return r.status(ctx, w)
	}
	a, err := r.openAdmin(r.admin, nil)
	if err != nil {
		return err
	}
	if known {
		err = r.objects(ctx, w, a, kind, id)
	} else {
		err = r.plugins(ctx, w, a)
	}
	return r.explain(a, err)
}

func (r *getting) objects(ctx context.Context, w io.Writer, a *transfer.Admin, kind model.Kind, id string) error {
	if r.effective {
		v, err := a.Effective(ctx, id, r.reveal)
		if err != nil {
			return named(model.Key{Kind: kind, ID: id}, err)
		}
		return r.print(w, v)
	}
	consumer := ""
	if kind == model.KindCredential {
		consumer, id, _ = strings.Cut(id, "/")
	}
	if id == "" {
		list, err := a.List(ctx, kind, consumer)
		if err != nil {
			return err
		}
		for _, l := range list {
			r.hide(l.Key, l.Value)
		}
		return r.list(w, kind, list)
	}
	key := model.Key{Kind: kind, ID: id}
	if consumer != "" {
		key.ID = consumer + "/credentials/" + id
	}
	v, err := a.Object(ctx, key)
	if err != nil {
		return named(key, err)
	}
	r.hide(key, v)
	if r.output == "table" {
		return r.list(w, kind, []transfer.Listed{{Key: key, Value: v}})
	}
	return r.print(w, v)
}

// named says which object an answer is about.
func named(key model.Key, err error) error {
	var no *transfer.Refusal
	if errors.As(err, &no) && no.Status == http.StatusNotFound {
		return fmt.Errorf("%s is not there", key)
	}
	return err
}

func (r *getting) hide(key model.Key, v *document.Value) {
	if !r.reveal && v.Is(document.Object) {
		r.schemas.Mask(key, v, func(string) string { return transfer.Hidden })
	}
}

// print prints one value, as YAML unless JSON is wanted.
func (r *getting) print(w io.Writer, v *document.Value) error {
	text := transfer.AppendJSON(nil, v)
	if r.output != "json" {
		var err error
		if text, err = transfer.AppendYAML(nil, v); err != nil {
			return err
		}
	}
	_, err := w.Write(text)
	return err
}

func (r *getting) list(w io.Writer, kind model.Kind, list []transfer.Listed) error {
	if r.output == "" || r.output == "table" {
		return table(w, kind, list)
	}
	all := &document.Value{Kind: document.Array}
	for _, l := range list {
		all.Items = append(all.Items, l.Value)
	}
	return r.print(w, all)
}

func (r *getting) plugins(ctx context.Context, w io.Writer, a *transfer.Admin) error {
	names, err := a.Get(ctx, "/plugins/list")
	if err != nil {
		return err
	}
	if r.output == "yaml" || r.output == "json" {
		return r.print(w, names)
	}
	for _, n := range names.Items {
		fmt.Fprintln(w, n.Text)
	}
	return nil
}

// status asks the Control API.
func (r *getting) status(ctx context.Context, w io.Writer) error {
	root, err := controlRoot(r.control, r.config)
	if err != nil {
		return err
	}
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, root+"/v1/revision", nil)
	if err != nil {
		return usageError{fmt.Errorf("--control: %w", err)}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return unreachableControl(root, err)
	}
	defer res.Body.Close()
	body, err := controlBody(res)
	if err != nil {
		return err
	}
	v, err := document.Parse(body)
	if err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s/v1/revision: status %d: %s; is that the Control API of Weir?", root, res.StatusCode, refusal(body))
	}
	if r.output != "" && r.output != "table" {
		return r.print(w, v)
	}
	return printStatus(w, body)
}

func printStatus(w io.Writer, body []byte) error {
	var s struct {
		Applied   int64          `json:"applied"`
		Store     int64          `json:"store"`
		Lag       int64          `json:"lag"`
		Connected bool           `json:"connected"`
		LastError string         `json:"last_error"`
		Objects   map[string]int `json:"objects"`
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return err
	}
	fmt.Fprintf(w, "applied    %d\nstore      %d\nlag        %d\nconnected  %v\n", s.Applied, s.Store, s.Lag, s.Connected)
	if s.LastError != "" {
		fmt.Fprintf(w, "last error %s\n", s.LastError)
	}
	for k := range model.KindCount {
		if n := s.Objects[k.Dir()]; n > 0 {
			fmt.Fprintf(w, "%-18s %d\n", k.Dir(), n)
		}
	}
	return nil
}
