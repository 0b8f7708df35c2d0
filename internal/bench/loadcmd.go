package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// fillOptions are the flags of `weir bench load`.
type fillOptions struct {
	consumers        int
	from, upstream   string
	etcd             []string
	prefix           string
	seed             uint64
	timeout          time.Duration
	remove, printing bool
}

func loadCommand() *cobra.Command {
	o := &fillOptions{}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Load consumers and a key-auth route for them in bulk through etcd",
		Long: `Load writes consumers named bench_... with key-auth credentials, and one route,
` + consumerPath + `, that they may use. It is what "weir bench churn" begins with,
alone, for other load generators.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			return runLoad(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.consumers, "consumers", 50000, "number of consumers")
	f.StringVar(&o.from, "from", "", "file with a name (bench_...) and a key on each line, instead of generated ones")
	f.StringVar(&o.upstream, "upstream", "", "host:port that the route leads to (required unless --remove)")
	f.StringSliceVar(&o.etcd, "etcd", []string{"http://127.0.0.1:2379"}, "etcd of the gateway")
	f.StringVar(&o.prefix, "prefix", "/apisix", "prefix of its keys")
	f.Uint64Var(&o.seed, "seed", 1, "seed of generated keys")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "time for all of it")
	f.BoolVar(&o.printing, "print", false, "print name and key of each consumer")
	f.BoolVar(&o.remove, "remove", false, "remove everything named bench_ instead")
	return cmd
}

func runLoad(ctx context.Context, o *fillOptions, stdout io.Writer) error {
	if o.upstream == "" && !o.remove {
		return Misuse{errors.New("--upstream is required")}
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	store, err := openStore(o.etcd, o.prefix)
	if err != nil {
		return err
	}
	defer store.close()
	if o.remove {
		return store.removeAll(ctx)
	}
	pairs, err := o.pairs()
	if err != nil {
		return err
	}
	docs := []document{consumerRoute(origin{addr: o.upstream})}
	for _, p := range pairs {
		docs = append(docs, consumerDocument(p.name, p.key))
	}
	if err := store.put(ctx, docs); err != nil {
		return err
	}
	if !o.printing {
		return nil
	}
	out := bufio.NewWriter(stdout)
	for _, p := range pairs {
		fmt.Fprintln(out, p.name, p.key)
	}
	return out.Flush()
}

type credential struct{ name, key string }

func (o *fillOptions) pairs() ([]credential, error) {
	if o.from == "" {
		all := make([]credential, o.consumers)
		for i := range all {
			all[i] = credential{fmt.Sprintf("bench_%d", i), apiKey(o.seed, i)}
		}
		return all, nil
	}
	text, err := os.ReadFile(o.from)
	if err != nil {
		return nil, err
	}
	var all []credential
	for line := range strings.Lines(string(text)) {
		name, key, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || !strings.HasPrefix(name, "bench_") {
			return nil, fmt.Errorf("%s:%d: want a name that begins with bench_, a space, a key", o.from, len(all)+1)
		}
		all = append(all, credential{name, key})
	}
	return all, nil
}
