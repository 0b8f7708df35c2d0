package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// A cluster is an etcd of several members on loopback, each behind a relay.
type cluster struct {
	etcd    string        // path of the binary
	dir     string        // for logs
	disk    string        // for data
	net     *namespace    // where it runs, without relays; nil: on loopback
	certs   *certificates // between it and gateways; nil: no TLS
	members []*member
	client  *clientv3.Client // past the relays, without TLS
}

// A member is one etcd of a cluster.
type member struct {
	name                 string
	host                 string
	client, secure, peer int    // ports
	data                 string // directory
	proc                 *process
	relay                *relay
}

func (m *member) url() string       { return fmt.Sprintf("http://%s:%d", m.host, m.client) }
func (m *member) secureURL() string { return fmt.Sprintf("https://%s:%d", m.host, m.secure) }
func (m *member) peerURL() string   { return fmt.Sprintf("http://%s:%d", m.host, m.peer) }

// begin runs n members; close has to be called also if it fails.
func (c *cluster) begin(ctx context.Context, n int) (err error) {
	free, err := freePorts(3 * n)
	if err != nil {
		return err
	}
	host := "127.0.0.1"
	if c.net != nil {
		host = c.net.address
	}
	var urls []string
	for i := range n {
		m := &member{
			name: fmt.Sprintf("m%d", i), host: host, client: free[3*i], secure: free[3*i+1], peer: free[3*i+2],
			data: filepath.Join(c.disk, fmt.Sprintf("etcd-%d", i)),
		}
		if err := c.relay(m); err != nil {
			return err
		}
		c.members = append(c.members, m)
		urls = append(urls, m.url())
	}
	for _, m := range c.members {
		if err := c.start(m); err != nil {
			return err
		}
	}
	c.client, err = clientv3.New(clientv3.Config{Endpoints: urls, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	return c.ready(ctx)
}

// relay puts a relay before a member, unless the network between is a real one.
func (c *cluster) relay(m *member) (err error) {
	if c.net != nil {
		return nil
	}
	port := m.client
	if c.certs != nil {
		port = m.secure
	}
	m.relay, err = newRelay(fmt.Sprintf("%s:%d", m.host, port))
	return err
}

// initial is the value of --initial-cluster.
func (c *cluster) initial() string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.name+"="+m.peerURL())
	}
	return strings.Join(all, ",")
}

// start runs a member, anew or again.
func (c *cluster) start(m *member) (err error) {
	args := []string{c.etcd, "--name", m.name, "--data-dir", m.data, "--advertise-client-urls", m.url(),
		"--listen-peer-urls", m.peerURL(), "--initial-advertise-peer-urls", m.peerURL(),
		"--initial-cluster", c.initial(), "--logger", "zap", "--log-level", "error"}
	if c.certs != nil {
		pair := c.certs.file(ofServer)
		args = append(args, "--listen-client-urls", m.url()+","+m.secureURL(),
			"--cert-file", pair, "--key-file", pair, "--client-cert-auth", "--trusted-ca-file", c.certs.roots())
	} else {
		args = append(args, "--listen-client-urls", m.url())
	}
	if c.net != nil {
		args = c.net.command(args)
	}
	m.proc, err = start(filepath.Join(c.dir, m.name+".log"), args[0], args[1:]...)
	return err
}

// ready waits until the cluster takes reads that a majority confirms.
func (c *cluster) ready(ctx context.Context) error {
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err := c.client.Get(try, "/")
		cancel()
		if err == nil {
			return nil
		}
		if !sleepUntil(ctx, time.Now().Add(50*time.Millisecond)) {
			return fmt.Errorf("the cluster is not ready: %w", err)
		}
	}
}

// endpoints are the URLs for gateways.
func (c *cluster) endpoints() []string {
	var all []string
	for _, m := range c.members {
		switch {
		case c.net != nil:
			all = append(all, m.url())
		case c.certs != nil:
			all = append(all, "https://"+m.relay.server.addr())
		default:
			all = append(all, "http://"+m.relay.server.addr())
		}
	}
	return all
}

// each does the same to the relays of all members.
func (c *cluster) each(f func(*relay)) {
	for _, m := range c.members {
		f(m.relay)
	}
}

// leader is the member that leads.
func (c *cluster) leader(ctx context.Context) (*member, error) {
	for {
		for _, m := range c.members {
			try, cancel := context.WithTimeout(ctx, time.Second)
			st, err := c.client.Status(try, m.url())
			cancel()
			if err == nil && st.Leader == st.Header.MemberId {
				return m, nil
			}
		}
		if !sleepUntil(ctx, time.Now().Add(100*time.Millisecond)) {
			return nil, errors.New("the cluster has no leader")
		}
	}
}

// revision is the newest of the store.
func (c *cluster) revision(ctx context.Context) (int64, error) {
	res, err := c.client.Get(ctx, "/", clientv3.WithLimit(1))
	if err != nil {
		return 0, err
	}
	return res.Header.Revision, nil
}

// snapshot saves the store into a file.
func (c *cluster) snapshot(ctx context.Context) (string, error) {
	to := filepath.Join(c.dir, "snapshot.db")
	out, err := exec.CommandContext(ctx, c.tool(), "--endpoints", c.members[0].url(), "snapshot", "save", to).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("etcdctl snapshot save: %w: %.300s", err, out)
	}
	return to, nil
}

// restore stops all members and starts them anew from a snapshot.
func (c *cluster) restore(ctx context.Context, from string) error {
	for _, m := range c.members {
		m.proc.stop()
		if err := os.RemoveAll(m.data); err != nil {
			return err
		}
		out, err := exec.CommandContext(ctx, c.tool(), "snapshot", "restore", from, "--name", m.name, "--data-dir", m.data,
			"--initial-cluster", c.initial(), "--initial-advertise-peer-urls", m.peerURL()).CombinedOutput()
		if err != nil {
			return fmt.Errorf("etcdctl snapshot restore: %w: %.300s", err, out)
		}
	}
	for _, m := range c.members {
		if err := c.start(m); err != nil {
			return err
		}
	}
	return c.ready(ctx)
}

// tool is the etcdctl beside etcd.
func (c *cluster) tool() string { return filepath.Join(filepath.Dir(c.etcd), "etcdctl") }

func (c *cluster) close() {
	if c.client != nil {
		_ = c.client.Close()
	}
	for _, m := range c.members {
		if m.relay != nil {
			m.relay.close()
		}
		if m.proc != nil {
			m.proc.kill()
		}
	}
	if c.net != nil {
		c.net.close()
	}
}
