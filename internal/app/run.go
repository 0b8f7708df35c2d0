package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"weir/internal/source/portal"
)

// Run starts a gateway and serves until a signal ends it or a part that it
// needs fails.
//
//	SIGTERM, SIGINT, SIGQUIT   finish what has begun, for at most
//	                           nginx_config.worker_shutdown_timeout; a second
//	                           one ends at once
//	SIGUSR1                    open the logs anew
//	SIGHUP                     load the products of 3scale anew; else nothing:
//	                           configuration is live as it is
func Run(ctx context.Context, o Options) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGHUP)
	defer signal.Stop(signals)

	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	type started struct {
		g   *Gateway
		err error
	}
	done := make(chan started, 1)
	go func() {
		g, err := Start(starting, o)
		done <- started{g, err}
	}()
	for {
		select {
		case s := <-done:
			if errors.Is(s.err, portal.ErrCacheOff) {
				fmt.Fprintln(o.Out, s.err) // no failure, for APIcast
				return nil
			}
			if s.err != nil {
				return s.err
			}
			return s.g.serveUntil(ctx, signals)
		case sig := <-signals:
			if ends(sig) {
				cancel()
				s := <-done
				if s.g != nil {
					return s.g.Stop(starting)
				}
				return nil
			}
		}
	}
}

func ends(sig os.Signal) bool {
	return sig == syscall.SIGTERM || sig == syscall.SIGINT || sig == syscall.SIGQUIT
}

func (g *Gateway) serveUntil(ctx context.Context, signals <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return g.drain(signals)
		case err := <-g.failed:
			g.log.Error("stopping", "err", err)
			_ = g.drain(signals) // the first failure is the one to report
			return err
		case sig := <-signals:
			switch {
			case ends(sig):
				return g.drain(signals)
			case sig == syscall.SIGUSR1:
				if err := g.Reopen(); err != nil {
					g.log.Error("logs could not be opened anew", "err", err)
				}
			case g.account != nil:
				g.reloadProducts(ctx)
			default:
				g.log.Warn("SIGHUP: nothing to reload: objects are live when they are stored, the file is read at the start")
			}
		}
	}
}

// drain stops gracefully; another signal makes it stop at once.
func (g *Gateway) drain(signals <-chan os.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), g.Config.Nginx.Drain)
	defer cancel()
	g.say("stopping", "requests in progress are finished; a second signal ends them")
	done := make(chan error, 1)
	go func() { done <- g.Stop(ctx) }()
	var late <-chan time.Time
	for {
		select {
		case err := <-done:
			g.say("stopped", "")
			return err
		case sig := <-signals:
			if ends(sig) {
				cancel()
			}
		case <-ctx.Done():
			if late == nil {
				late = time.After(lateStop)
			}
			ctx = context.WithoutCancel(ctx)
		case <-late:
			return errors.New("a part of the gateway does not stop; it is left behind")
		}
	}
}

// lateStop is how long a stop that was cut short may still take.
const lateStop = 5 * time.Second
