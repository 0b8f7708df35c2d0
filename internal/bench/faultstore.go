package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// killLeader kills the leading member, with kill -9, and starts it again.
func killLeader(ctx context.Context, t *trial) error {
	m, err := t.cluster.leader(ctx)
	if err != nil {
		return err
	}
	m.proc.kill()
	t.mended = time.Now() // the others have to do
	if err := t.recover(ctx); err != nil {
		return err
	}
	if err := t.pause(ctx, t.opts.hold); err != nil {
		return err
	}
	return t.cluster.start(m)
}

// loseMember kills a member that does not come back.
func loseMember(ctx context.Context, t *trial) error {
	m, err := t.cluster.leader(ctx)
	if err != nil {
		return err
	}
	for _, other := range t.cluster.members {
		if other != m {
			other.proc.kill()
			break
		}
	}
	t.mended = time.Now()
	if err := t.recover(ctx); err != nil {
		return err
	}
	return t.pause(ctx, t.opts.hold)
}

// loseMajority kills two members and starts them again.
func loseMajority(ctx context.Context, t *trial) error {
	for _, m := range t.cluster.members[:2] {
		m.proc.kill()
	}
	if err := t.pause(ctx, t.opts.hold); err != nil {
		return err
	}
	for _, m := range t.cluster.members[:2] {
		if err := t.cluster.start(m); err != nil {
			return err
		}
	}
	t.mended = time.Now()
	return nil
}

// cutNetwork resets all connections between gateway and store and refuses new ones.
func cutNetwork(ctx context.Context, t *trial) error {
	t.cluster.each((*relay).cut)
	return t.heal(ctx)
}

// silenceNetwork loses whatever gateway and store send each other.
func silenceNetwork(ctx context.Context, t *trial) error {
	t.cluster.each(func(r *relay) { r.silent.Store(true) })
	return t.heal(ctx)
}

// slowStore delays whatever gateway and store send each other.
func slowStore(ctx context.Context, t *trial) error {
	t.cluster.each(func(r *relay) { r.delay.Store(int64(200 * time.Millisecond)) })
	return t.heal(ctx)
}

// heal ends what the network does, after a while.
func (t *trial) heal(ctx context.Context) error {
	if err := t.pause(ctx, t.opts.hold); err != nil {
		return err
	}
	t.cluster.each((*relay).mend)
	t.mended = time.Now()
	return nil
}

// compactMeanwhile writes to the store while the gateway is cut off, and compacts
// it, so that what was written cannot be watched any more.
func compactMeanwhile(ctx context.Context, t *trial) error {
	t.cluster.each((*relay).cut)
	// The Admin API takes no writes now; objects that no writer knows come from elsewhere.
	for i := range 3 * faultObjects {
		key := faultKey(faultObjects + i%faultObjects)
		v := t.ledger.begin(key, i%7 == 0)
		if err := t.writeStore(ctx, key, v); err != nil {
			return err
		}
		t.ledger.acknowledge(key, v)
	}
	rev, err := t.cluster.revision(ctx)
	if err != nil {
		return err
	}
	if _, err := t.cluster.client.Compact(ctx, rev); err != nil {
		return err
	}
	return t.heal(ctx)
}

// writeStore writes past the gateway.
func (t *trial) writeStore(ctx context.Context, key string, v version) error {
	if !v.gone {
		return t.store.put(ctx, []document{t.faultDocument(key, v)})
	}
	_, err := t.store.client.Delete(ctx, t.store.prefix+key)
	return err
}

// restoreStore sets the store back to a snapshot. What was acknowledged since is
// lost with the store; the gateway has to run what the store has then.
func restoreStore(ctx context.Context, t *trial) error {
	file, err := t.cluster.snapshot(ctx)
	if err != nil {
		return err
	}
	before, err := t.cluster.revision(ctx)
	if err != nil {
		return err
	}
	if err := t.pause(ctx, t.opts.hold); err != nil {
		return err
	}
	after, err := t.cluster.revision(ctx)
	if err != nil {
		return err
	}
	t.stopWriters()
	if err := t.cluster.restore(ctx, file); err != nil {
		return err
	}
	t.mended = time.Now()
	stored, err := t.stored(ctx)
	if err != nil {
		return err
	}
	t.ledger.adopt(stored)
	t.note("the store went from revision %d back to %d", after, before)
	if err := t.recover(ctx); err != nil {
		return err
	}
	t.stopWriters = background(ctx, t.write)
	return t.pause(ctx, 2*time.Second)
}

// changePassword gives the gateway's user another password, which the running
// gateway does not know, and the old one again; then another for good, with a
// gateway that takes over.
func changePassword(ctx context.Context, t *trial) error {
	if err := t.password(ctx, "second"); err != nil {
		return err
	}
	if err := t.pause(ctx, t.opts.hold); err != nil {
		return err
	}
	if err := t.password(ctx, "first"); err != nil {
		return err
	}
	t.mended = time.Now()
	if err := t.recover(ctx); err != nil {
		return err
	}
	if err := t.password(ctx, "third"); err != nil {
		return err
	}
	if err := t.configure("weir", "third"); err != nil {
		return err
	}
	return t.succeed(ctx)
}

// succeed starts a gateway beside the running one, on the same ports, and ends that
// when the new one is ready.
func (t *trial) succeed(ctx context.Context) error {
	old := t.gateway.proc
	next, err := start(filepath.Join(t.dir, "next.log"), t.gateway.weir, "run", "-c", t.gateway.config)
	if err != nil {
		return err
	}
	t.gateway.proc = next
	ctx, cancel := context.WithTimeout(ctx, recoveryTime)
	defer cancel()
	for {
		text, _ := os.ReadFile(next.log)
		if bytes.Contains(text, []byte("ready")) {
			old.stop()
			return nil
		}
		if !sleepUntil(ctx, time.Now().Add(20*time.Millisecond)) {
			old.stop()
			return next.explain(errors.New("the gateway that takes over does not become ready"))
		}
	}
}

// writable says whether writes work again within a while.
func (t *trial) writable(ctx context.Context) bool {
	before := t.acknowledged()
	for deadline := time.Now().Add(writeTimeout); time.Now().Before(deadline) && ctx.Err() == nil; {
		sleepUntil(ctx, time.Now().Add(100*time.Millisecond))
		if t.acknowledged() > before {
			return true
		}
	}
	return false
}

func (t *trial) acknowledged() int {
	_, acked := t.ledger.counts()
	return acked
}

// guardStore makes the store ask for users: root, and weir for the gateway.
func (t *trial) guardStore(ctx context.Context) error {
	c := t.cluster.client
	for _, do := range []func() error{
		func() error { _, err := c.UserAdd(ctx, "root", rootPassword); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.RoleAdd(ctx, "weir"); return err },
		func() error {
			_, err := c.RoleGrantPermission(ctx, "weir", "/apisix", clientv3.GetPrefixRangeEnd("/apisix"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := c.UserAdd(ctx, "weir", "first"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "weir", "weir"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		if err := do(); err != nil {
			return fmt.Errorf("users of etcd: %w", err)
		}
	}
	root, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints(), DialTimeout: 5 * time.Second, Username: "root", Password: rootPassword, Logger: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	_ = c.Close()
	t.cluster.client = root
	return nil
}

const rootPassword = "bench-root"

func (t *trial) password(ctx context.Context, to string) error {
	_, err := t.cluster.client.UserChangePassword(ctx, "weir", to)
	return err
}
