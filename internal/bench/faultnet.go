package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// A namespace is a network of its own for the store, joined to the gateway's by a pair
// of devices.
type namespace struct {
	name          string
	near, far     string // devices: here, within
	here, address string
}

// newNamespace makes one, with addresses of the range for benchmarks (RFC 2544).
func newNamespace() (n *namespace, err error) {
	pid := os.Getpid()
	block := fmt.Sprintf("198.18.%d.", pid>>6&0xff)
	n = &namespace{
		name: fmt.Sprintf("weir-bench-%d", pid), near: fmt.Sprintf("wb%da", pid), far: fmt.Sprintf("wb%db", pid),
		here: fmt.Sprint(block, pid&0x3f<<2+1), address: fmt.Sprint(block, pid&0x3f<<2+2),
	}
	if err := run("ip", "netns", "add", n.name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	for _, args := range [][]string{
		{"link", "add", n.near, "type", "veth", "peer", "name", n.far, "netns", n.name},
		{"addr", "add", n.here + "/30", "dev", n.near},
		{"link", "set", n.near, "up"},
		{"-n", n.name, "addr", "add", n.address + "/30", "dev", n.far},
		{"-n", n.name, "link", "set", n.far, "up"},
		{"-n", n.name, "link", "set", "lo", "up"},
	} {
		if err := run("ip", args...); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// needNamespace says why there is none.
func needNamespace(*faultOptions) error {
	n, err := newNamespace()
	if err != nil {
		return err
	}
	n.close()
	return nil
}

// run carries out a command that says nothing unless it fails.
func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w: %.300s", name, args, err, out)
	}
	return nil
}

func (n *namespace) inside(args ...string) error {
	return run("ip", append([]string{"-n", n.name}, args...)...)
}

// command is one that runs args within.
func (n *namespace) command(args []string) []string {
	return append([]string{"ip", "netns", "exec", n.name}, args...)
}

// lose has both sides send to an address of the link layer that nobody has: the network
// drops all of it and says nothing.
func (n *namespace) lose() error {
	const nobody = "02:00:5e:00:53:01"
	return errors.Join(
		run("ip", "neigh", "replace", n.address, "lladdr", nobody, "nud", "permanent", "dev", n.near),
		n.inside("neigh", "replace", n.here, "lladdr", nobody, "nud", "permanent", "dev", n.far),
	)
}

// find undoes lose.
func (n *namespace) find() error {
	return errors.Join(
		run("ip", "neigh", "del", n.address, "dev", n.near),
		n.inside("neigh", "del", n.here, "dev", n.far),
	)
}

func (n *namespace) unplug() error { return n.inside("link", "set", n.far, "down") }
func (n *namespace) plug() error   { return n.inside("link", "set", n.far, "up") }

// close needs what runs within to have ended. The devices are gone when it returns,
// which those of a namespace alone would not be.
func (n *namespace) close() {
	_ = run("ip", "link", "del", n.near)
	_ = run("ip", "netns", "del", n.name)
}

// losePackets drops whatever gateway and store send each other, without a word, for so
// long that connections are given up.
func losePackets(ctx context.Context, t *trial) error {
	return t.apart(ctx, t.cluster.net.lose, t.cluster.net.find)
}

// unplugLink takes the link between gateway and store down.
func unplugLink(ctx context.Context, t *trial) error {
	return t.apart(ctx, t.cluster.net.unplug, t.cluster.net.plug)
}

// apart parts gateway and store for a while.
func (t *trial) apart(ctx context.Context, part, join func() error) error {
	const long = 4
	if err := part(); err != nil {
		return err
	}
	if err := t.pause(ctx, long*t.opts.hold); err != nil {
		return err
	}
	if err := join(); err != nil {
		return err
	}
	t.mended = time.Now()
	return nil
}
