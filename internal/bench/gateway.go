package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"weir/internal/bench/load"
)

// stopTimeout is how long a process may take to end before it is killed.
const stopTimeout = 10 * time.Second

// A process is a server that the bench started.
type process struct {
	cmd   *exec.Cmd
	log   string          // file with its output
	ended context.Context // done when it has ended
}

// start runs a program with its output going to the file log.
func start(log, path string, args ...string) (*process, error) {
	return startWith(nil, log, path, args...)
}

// startWith runs a program with more variables in its environment.
func startWith(env []string, log, path string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	ended, end := context.WithCancel(context.Background())
	p := &process{cmd: exec.Command(path, args...), log: log, ended: ended}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Dir = filepath.Dir(log)
	p.cmd.Env = append(os.Environ(), env...)
	// A Ctrl-C at the terminal is for the bench, which then stops its servers.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		end()
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended stands in its log
		end()
	}()
	return p, nil
}

// stop ends the process and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended.Done():
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.ended.Done()
	}
}

// kill ends the process without a word and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended.Done()
}

// explain adds the end of the process's output to err.
func (p *process) explain(err error) error {
	text, _ := os.ReadFile(p.log)
	if len(text) > 2000 {
		text = text[len(text)-2000:]
	}
	return fmt.Errorf("%w\nlast output of %s:\n%s", err, p.cmd.Path, strings.TrimSpace(string(text)))
}

// A managed gateway is a Weir that the bench starts, stops and starts again on
// the same data and ports.
type managed struct {
	weir   string // path of the binary
	dir    string // for its configuration, data and output
	config string
	ports  ports
	key    string
	env    []string // more variables of its environment
	etcd   *process // nil with the embedded store
	proc   *process
}

type ports struct{ data, admin, store, peer, control int }

const configTemplate = `# written by weir bench
apisix:
  node_listen:
    - ip: 127.0.0.1
      port: %d
  enable_ipv6: false
  control:
    ip: 127.0.0.1
    port: %d
%s  data_encryption:
    enable_encrypt_fields: false
nginx_config:
  http:
    enable_access_log: false
plugin_attr:
  prometheus:
    enable_export_server: false
deployment:
  role: traditional
  role_traditional:
    config_provider: etcd
  admin:
    allow_admin:
      - 127.0.0.0/24
    admin_key:
      - name: admin
        key: %s
        role: admin
    admin_listen:
      ip: 127.0.0.1
      port: %d
`

// noTLS are members of the section apisix.
const noTLS = "  ssl:\n    enable: false\n"

const embeddedTemplate = `weir:
  store:
    dir: %s
    listen: 127.0.0.1:%d
`

const externalTemplate = `  etcd:
    host:
      - http://127.0.0.1:%d
    prefix: /apisix
`

// newManaged writes the configuration below dir and, with externalEtcd, starts
// etcd; the gateway itself is started by start.
func newManaged(dir, weir, externalEtcd string) (*managed, error) {
	return newManagedWith(noTLS, dir, weir, externalEtcd)
}

// newManagedWith is newManaged with more members of the section apisix.
func newManagedWith(members, dir, weir, externalEtcd string) (*managed, error) {
	free, err := freePorts(5)
	if err != nil {
		return nil, err
	}
	m := &managed{
		weir: weir, dir: dir, config: filepath.Join(dir, "config.yaml"), key: apiKey(uint64(os.Getpid()), 0),
		ports: ports{data: free[0], admin: free[1], store: free[2], peer: free[3], control: free[4]},
	}
	text := fmt.Sprintf(configTemplate, m.ports.data, m.ports.control, members, m.key, m.ports.admin)
	if externalEtcd == "" {
		text += fmt.Sprintf(embeddedTemplate, filepath.Join(dir, "data"), m.ports.store)
	} else {
		text += fmt.Sprintf(externalTemplate, m.ports.store)
		client, peer := m.storeURL(), fmt.Sprintf("http://127.0.0.1:%d", m.ports.peer)
		m.etcd, err = start(filepath.Join(dir, "etcd.log"), externalEtcd, "--data-dir", filepath.Join(dir, "etcd"),
			"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
			"--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
		if err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(m.config, []byte(text), 0o600); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

func (m *managed) storeURL() string { return fmt.Sprintf("http://127.0.0.1:%d", m.ports.store) }
func (m *managed) adminURL() string { return fmt.Sprintf("http://127.0.0.1:%d", m.ports.admin) }
func (m *managed) dataAddr() string { return fmt.Sprintf("127.0.0.1:%d", m.ports.data) }

// start runs the gateway; it does not wait for it.
func (m *managed) start() (err error) {
	m.proc, err = startWith(m.env, filepath.Join(m.dir, "weir.log"), m.weir, "run", "-c", m.config)
	return err
}

// ready waits until store, Admin API and data plane answer.
func (m *managed) ready(ctx context.Context, store *etcdStore, admin *adminClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.proc.ended, cancel)()
	if err := m.poll(ctx, store, admin); err != nil {
		return m.proc.explain(err)
	}
	return nil
}

func (m *managed) poll(ctx context.Context, store *etcdStore, admin *adminClient) error {
	if err := store.ready(ctx); err != nil {
		return err
	}
	for {
		err := admin.call(ctx, "GET", "routes", "")
		if err == nil {
			break
		}
		if !sleepUntil(ctx, time.Now().Add(5*time.Millisecond)) {
			return fmt.Errorf("the Admin API is not ready: %w", err)
		}
	}
	client := &load.Client{Dial: tcpDialer(m.dataAddr())}
	defer client.Close()
	for {
		_, err := client.Ask(ctx, []byte("GET / HTTP/1.1\r\nHost: bench.test\r\n\r\n"), time.Second)
		if err == nil {
			return nil
		}
		if !sleepUntil(ctx, time.Now().Add(5*time.Millisecond)) {
			return fmt.Errorf("the data plane is not ready: %w", err)
		}
	}
}

// close stops what was started.
func (m *managed) close() {
	if m.proc != nil {
		m.proc.stop()
	}
	if m.etcd != nil {
		m.etcd.stop()
	}
}

// freePorts are ports that nobody uses. They are below those that the system gives to
// whoever asks for any, or one could be taken before the process that it is for starts.
func freePorts(n int) ([]int, error) {
	var all []int
	for tries := 0; len(all) < n; tries++ {
		port := firstPort + rand.IntN(anyPort-firstPort)
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			defer ln.Close()
			all = append(all, port)
		} else if tries > 10*n {
			return nil, err
		}
	}
	return all, nil
}

// Ports that freePorts chooses from: anyPort is the first that Linux gives out.
const firstPort, anyPort = 10000, 32768

func tcpDialer(addr string) dialer {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
}
