package listen

import (
	"errors"
	"log/slog"
	"net"
	"time"
)

// The pauses between two attempts to accept while that fails for the moment.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = time.Second
)

// Accept calls serve with every connection that l accepts, one after the other,
// until l is closed or stopping says so, which is no error, or until accepting
// fails for good. What fails for the moment (no descriptors, no memory) is logged
// and tried again: connections that end make room.
func Accept(l net.Listener, log *slog.Logger, stopping func() bool, serve func(net.Conn)) error {
	for pause := shortestPause; ; {
		nc, err := l.Accept()
		if err == nil {
			pause = shortestPause
			serve(nc)
			continue
		}
		if stopping() || errors.Is(err, net.ErrClosed) {
			return nil
		}
		var temporary interface{ Temporary() bool }
		if !errors.As(err, &temporary) || !temporary.Temporary() {
			return err
		}
		log.Warn("cannot accept connections for the moment", "listener", l.Addr(), "err", err)
		time.Sleep(pause)
		pause = min(2*pause, longestPause)
	}
}
