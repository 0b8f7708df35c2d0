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
	etcd    string // path of the binary
	dir     string
	members []*member
	client  *clientv3.Client // past the relays
}

// A member is one etcd of a cluster.
type member struct {
	name         string
	client, peer int    // ports
	data         string // directory
	proc         *process
	relay        *relay
}

func (m *member) url() string     { return fmt.Sprintf("http://127.0.0.1:%d", m.client) }
func (m *member) peerURL() string { return fmt.Sprintf("http://127.0.0.1:%d", m.peer) }

// startCluster runs n members with their data below dir.
func startCluster(ctx context.Context, dir, etcd string, n int) (c *cluster, err error) {
	free, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	c = &cluster{etcd: etcd, dir: dir}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	for i := range n {
		m := &member{
			name: fmt.Sprintf("m%d", i), client: free[2*i], peer: free[2*i+1],
			data: filepath.Join(dir, fmt.Sprintf("etcd-%d", i)),
		}
		if m.relay, err = newRelay(fmt.Sprintf("127.0.0.1:%d", m.client)); err != nil {
			return nil, err
		}
		c.members = append(c.members, m)
	}
	var urls []string
	for _, m := range c.members {
		urls = append(urls, m.url())
		if err := c.start(m); err != nil {
			return nil, err
		}
	}
	c.client, err = clientv3.New(clientv3.Config{Endpoints: urls, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return c, c.ready(ctx)
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
	m.proc, err = start(filepath.Join(c.dir, m.name+".log"), c.etcd, "--name", m.name, "--data-dir", m.data,
		"--listen-client-urls", m.url(), "--advertise-client-urls", m.url(),
		"--listen-peer-urls", m.peerURL(), "--initial-advertise-peer-urls", m.peerURL(),
		"--initial-cluster", c.initial(), "--logger", "zap", "--log-level", "error")
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

// endpoints are the URLs of the relays.
func (c *cluster) endpoints() []string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.relay.url())
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
		m.relay.close()
		if m.proc != nil {
			m.proc.kill()
		}
	}
}
