package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// figureOptions are the flags that commands with one figure have in common.
type figureOptions struct {
	weir, format, out, json string
	ready                   time.Duration
}

// A figure is an outcome that can be printed; in JSON it is what it is.
type figure interface{ table(w io.Writer) }

// figureCommand is a command that measures one figure.
func figureCommand(use, short, long string, measure func(context.Context, *figureOptions, *progress) (figure, error)) *cobra.Command {
	o := &figureOptions{}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.run(ctx, measure, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.weir, "weir", "", "binary to start (default: this one)")
	f.DurationVar(&o.ready, "ready", 2*time.Minute, "time the gateway has to start")
	f.StringVar(&o.format, "format", "table", "table or json")
	f.StringVar(&o.out, "out", "", "`file` for the result (default: standard output)")
	f.StringVar(&o.json, "json", "", "`file` for the result in JSON, besides")
	return cmd
}

func (o *figureOptions) run(ctx context.Context, measure func(context.Context, *figureOptions, *progress) (figure, error), stdout, stderr io.Writer) error {
	if o.format != "table" && o.format != "json" {
		return Misuse{fmt.Errorf("--format %s: want table or json", o.format)}
	}
	if o.out != "" {
		file, err := os.Create(o.out)
		if err != nil {
			return err
		}
		defer file.Close()
		stdout = file
	}
	f, err := measure(ctx, o, newProgress(stderr))
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if o.json != "" {
		if err := os.WriteFile(o.json, text, 0o644); err != nil {
			return err
		}
	}
	if o.format == "json" {
		_, err = stdout.Write(text)
	} else {
		var b strings.Builder
		f.table(&b)
		_, err = io.WriteString(stdout, b.String())
	}
	if v, ok := f.(verdict); ok && err == nil {
		err = v.broken()
	}
	return err
}

// A verdict is a figure that can be bad: the command then fails, after printing it.
type verdict interface{ broken() error }

// startGateway runs a gateway with the routes of an apisix.yaml, in which
// originMark stands for originAddr. stop must be called.
func (o *figureOptions) startGateway(ctx context.Context, rules, originAddr string) (t *target, stop func(), err error) {
	s := &side{name: "gateway", config: object{}}
	if s.binary, err = binaryPath(o.weir); err != nil {
		return nil, nil, err
	}
	if s.rules, err = parse("the routes", rules, originAddr); err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, nil, err
	}
	t, err = startSide(ctx, s, dir, func(f func() error) error { return f() }, o.ready)
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	return t, func() { t.stop(); os.RemoveAll(dir) }, nil
}

// A server calls serve for each connection to it, on a goroutine of its own.
type server struct {
	ln    net.Listener
	serve func(net.Conn)
	wg    sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil: closed
}

// listenAndServe listens on a free loopback port until close.
func listenAndServe(serve func(net.Conn)) (*server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{ln: ln, serve: serve, conns: map[net.Conn]struct{}{}}
	s.wg.Go(s.accept)
	return s, nil
}

func (s *server) addr() string { return s.ln.Addr().String() }

func (s *server) accept() {
	for {
		nc, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		open := s.conns != nil
		if open {
			s.conns[nc] = struct{}{}
		}
		s.mu.Unlock()
		if !open {
			nc.Close()
			return
		}
		s.wg.Go(func() {
			s.serve(nc)
			nc.Close()
			s.mu.Lock()
			delete(s.conns, nc)
			s.mu.Unlock()
		})
	}
}

// close ends all connections and waits for them.
func (s *server) close() {
	s.ln.Close()
	s.mu.Lock()
	for nc := range s.conns {
		nc.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.wg.Wait()
}
