package bench

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"weir/internal/bench/tenant"
)

// productsCommand is `weir bench products`.
func productsCommand() *cobra.Command {
	c := tenant.Config{}
	out := ""
	cmd := &cobra.Command{
		Use:   "products",
		Short: "Print the 3scale products of the bench as a configuration document",
		Long: `Products prints what "weir bench reload" has its portal list as one document, as
THREESCALE_CONFIG_FILE and "weir run --apicast" take it, for other load generators.`,
		Example: `  weir bench products --products 600 --upstream http://127.0.0.1:9000 --backend http://127.0.0.1:9001 >products.json
  weir run --apicast products.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			if c.Products < 1 || c.Upstream == "" || c.Backend == "" {
				return Misuse{errors.New("--upstream and --backend are required, --products must be positive")}
			}
			text := append(tenant.NewCatalog(c).Document(), '\n')
			if out != "" {
				return os.WriteFile(out, text, 0o600)
			}
			_, err := cmd.OutOrStdout().Write(text)
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&c.Products, "products", 1, "number of products")
	f.StringVar(&c.Upstream, "upstream", "", "`URL` that they lead to")
	f.StringVar(&c.Backend, "backend", "", "`URL` of the 3scale backend")
	f.BoolVar(&c.Batcher, "batcher", false, "3scale_batcher in their chains, before apicast")
	f.StringVar(&c.Hostname, "hostname", "", "`name` of the first product (default: product-0.bench.test)")
	f.StringVar(&c.KeyHeader, "key-header", "", "request `header` that holds the user key (default: user_key of the query)")
	f.StringVar(&out, "out", "", "`file` for the document (default: standard output)")
	return cmd
}
