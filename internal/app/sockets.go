package app

import (
	"context"
	"os"

	"weir/internal/listen"
)

// openSockets takes what systemd has opened, and finds room for connections.
func (g *Gateway) openSockets(context.Context) error {
	g.room = listen.NewRoom()
	var err error
	if g.sockets, err = listen.New(g.Config.APISIX.HTTP.ReusePort, os.Getenv); err != nil {
		return err
	}
	g.onStop(func(context.Context) error {
		g.sockets.Close()
		return nil
	})
	return nil
}

// settleSockets says what systemd has opened for nothing.
func (g *Gateway) settleSockets(context.Context) error {
	for _, addr := range g.sockets.Unused() {
		g.log.Warn("systemd has opened a socket that no address of the configuration stands for", "socket", addr)
	}
	return nil
}

// notify tells systemd a state, where the gateway is its service.
func (g *Gateway) notify(state string) {
	if err := listen.Notify(state, os.Getenv); err != nil && g.log != nil {
		g.log.Warn("systemd was not told", "state", state, "err", err)
	}
}
