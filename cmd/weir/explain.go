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
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"weir/internal/app"
	"weir/internal/config"
)

// An explaining is one run of the command.
type explaining struct {
	configFile, control, output, apicast string
	offline, product                     bool

	method, client, consumer, key, body string
	header                              []string
}

func explainCommand() *cobra.Command {
	var run explaining
	cmd := &cobra.Command{
		Use:   "explain URL",
		Short: "Show what a request would meet, and why",
		Long: `Show which route or product a request matches and why better-placed candidates do
not, what its plugins are and where each comes from, every function that would run, and
where the request would go. Nothing runs and nothing changes. Secrets are hidden.

URL is a path, or a whole URL whose host counts. The running gateway is asked by its
Control API; with --offline the file of objects beside the configuration is read instead.

Exit codes: 0 explained, 1 it failed, 2 it was called in a way that makes no sense.`,
		Example: `  weir explain /anything
  weir explain http://api.example.com/v1/users -X POST -H 'Content-Type: application/json'
  weir explain /anything --consumer jack -o json
  weir explain /anything --key my-api-key --client 203.0.113.7
  weir explain /anything --offline -c conf/config.yaml
  weir explain http://api.example.com/v1/users --apicast products.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("explain needs one URL or path")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return run.run(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	configFlag(cmd, &run.configFile)
	f := cmd.Flags()
	f.StringVarP(&run.method, "method", "X", "GET", "`method` of the request")
	f.StringArrayVarP(&run.header, "header", "H", nil, "header `line` of the request, \"Name: value\"; may be given several times")
	f.StringVarP(&run.body, "data", "d", "", "`body` of the request, for routes that look at it")
	f.StringVar(&run.client, "client", "", "`address` that the request comes from; without it 127.0.0.1")
	f.StringVar(&run.consumer, "consumer", "", "`name` of the consumer that is taken to be authenticated")
	f.StringVar(&run.key, "key", "", "`key` that the consumer shows to the route's authentication")
	f.StringVarP(&run.output, "output", "o", "text", "`form`: text or json")
	f.StringVar(&run.control, "control", "", "`URL` of the Control API; without it what the configuration says, http://127.0.0.1:9090 by default")
	f.BoolVar(&run.product, "product", false, "the request comes to the listeners of 3scale products of a gateway that has routes, too")
	f.StringVar(&run.apicast, "apicast", "", "explain it to the 3scale products of a `file`, and ask no gateway")
	f.BoolVar(&run.offline, "offline", false, "read the file of objects that the configuration names, and ask no gateway")
	return cmd
}

func (r *explaining) run(ctx context.Context, w io.Writer, target string) error {
	if r.output != "text" && r.output != "json" {
		return usageError{fmt.Errorf("-o %s: text or json", r.output)}
	}
	q, err := app.QuestionOf(url.Values{
		"url": {target}, "method": {r.method}, "client": {r.client}, "consumer": {r.consumer}, "key": {r.key}, "body": {r.body},
		"header": r.header, "product": {strconv.FormatBool(r.product)},
	})
	if err != nil {
		return usageError{err}
	}
	c, err := config.Load(r.configFile, os.Environ())
	if err != nil {
		return err
	}
	said := new(app.Explanation)
	switch {
	case r.apicast != "":
		said, err = explainProducts(ctx, c, r.apicast, q)
	case r.offline:
		said, err = app.ExplainObjects(ctx, c, q)
	default:
		err = r.ask(ctx, c, q, said)
	}
	if err != nil {
		return err
	}
	if r.output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(said)
	}
	return printExplanation(w, said)
}

func explainProducts(ctx context.Context, c *config.Config, file string, q app.Question) (*app.Explanation, error) {
	products, err := config.LoadAPIcast(file, os.Environ())
	if err != nil {
		return nil, err
	}
	return app.ExplainProducts(ctx, c, products, q)
}

// ask asks the Control API.
func (r *explaining) ask(ctx context.Context, c *config.Config, q app.Question, said *app.Explanation) error {
	root, err := controlRoot(r.control, c)
	if err != nil {
		return err
	}
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, root+"/v1/explain", bytes.NewReader(text))
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
	if res.StatusCode != http.StatusOK {
		err := fmt.Errorf("%s/v1/explain: status %d: %s", root, res.StatusCode, refusal(body))
		if res.StatusCode == http.StatusBadRequest {
			return usageError{err}
		}
		return err
	}
	return json.Unmarshal(body, said)
}

// controlRoot is the URL of the Control API: the given one, or the
// configuration's.
func controlRoot(given string, c *config.Config) (string, error) {
	if root := strings.TrimRight(given, "/"); root != "" {
		return root, nil
	}
	if !c.APISIX.EnableControl {
		return "", errors.New("the configuration turns the Control API off (apisix.enable_control); another one is given with --control URL")
	}
	return "http://" + reachable(c.APISIX.Control), nil
}

// maxControl is more than any answer of the Control API has.
const maxControl = 64 << 20

func controlBody(res *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxControl+1))
	if err == nil && len(body) > maxControl {
		err = fmt.Errorf("%s sends more than %d MiB; is that the Control API of Weir?", res.Request.URL.Host, maxControl>>20)
	}
	return body, err
}

// refusal is the beginning of what a server says, without what a terminal obeys.
func refusal(body []byte) string {
	const most = 1000
	text := strings.TrimSpace(string(body[:min(len(body), most)]))
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

func unreachableControl(root string, err error) error {
	return fmt.Errorf("the Control API at %s cannot be reached: %w\nIs the gateway running (weir run)? Another address is given with --control URL or -c config.yaml", root, errors.Unwrap(err))
}
