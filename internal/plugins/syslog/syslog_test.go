package syslog

import (
	"bufio"
	"bytes"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/meter"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// env is that of one test.
func env(t *testing.T) (plugin.Env, *bytes.Buffer) {
	keeper := new(plugin.Keeper)
	e := plugintest.Env(time.Now)
	said := new(bytes.Buffer)
	e.Keep, e.Meter, e.Log = keeper.Uses(), meter.New(0), slog.New(slog.NewTextHandler(said, nil))
	t.Cleanup(func() { e.Keep.Release(); keeper.Close() })
	return e, said
}

var message = regexp.MustCompile(`^<46>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \S+ apisix \d+ - - (\{.*\})$`)

func portOf(a net.Addr) string {
	_, port, _ := net.SplitHostPort(a.String()) // of a socket
	return port
}

func conf(port, more string) []byte {
	return []byte(`{"host":"127.0.0.1","port":` + port + `,"batch_max_size":1,"log_format":{"client":"$remote_addr","said":"$protocol"}` + more + `}`)
}

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e, _ := env(t)
	ph, err := Plugin.Compile(conf(portOf(l.Addr()), ""), e)
	if err != nil {
		t.Fatal(err)
	}
	defer ph.Close()
	c := plugintest.NewCtx("/")
	c.Client = "192.0.2.1"
	ph.Log(c)
	check(t, line(t, l), `{"client":"192.0.2.1"`)
}

func line(t *testing.T, l net.Listener) string {
	t.Helper()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	got, err := bufio.NewReader(nc).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(got, "\n")
}

func check(t *testing.T, got, want string) {
	t.Helper()
	m := message.FindStringSubmatch(got)
	if m == nil || !strings.HasPrefix(m[1], want) {
		t.Errorf("%q", got)
	}
}

func TestStreamUDP(t *testing.T) {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	e, _ := env(t)
	ph, err := Stream.Compile(conf(portOf(socket.LocalAddr()), `,"sock_type":"udp"`), e)
	if err != nil {
		t.Fatal(err)
	}
	defer ph.Close()
	s := &plugin.StreamCtx{}
	s.Client = "192.0.2.1"
	s.SetVar("protocol", "TCP")
	ph.Log(s)
	b := make([]byte, 1<<10)
	socket.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, _, err := socket.ReadFrom(b)
	if err != nil {
		t.Fatal(err)
	}
	check(t, strings.TrimSuffix(string(b[:n]), "\n"), `{"client":"192.0.2.1","said":"TCP"`)
}

func TestStreamWithoutFormat(t *testing.T) {
	e, said := env(t)
	ph, err := Stream.Compile([]byte(`{"host":"127.0.0.1","port":`+strconv.Itoa(1)+`}`), e)
	if err != nil {
		t.Fatal(err)
	}
	defer ph.Close()
	ph.Log(&plugin.StreamCtx{})
	if !strings.Contains(said.String(), "syslog's log_format is not set") {
		t.Error(said.String())
	}
}

func TestConfig(t *testing.T) {
	for conf, want := range map[string]string{
		`{"port":1}`:   `property "host" is required`,
		`{"host":"a"}`: `property "port" is required`,
		`{"host":"a","port":1,"sock_type":"sctp"}`:   `property "sock_type" validation failed: matches none of the enum values`,
		`{"host":"a","port":1,"pool_size":4}`:        `property "pool_size" validation failed: expected 4 to be at least 5`,
		`{"host":"a","port":1,"max_retry_count":-1}`: `property "max_retry_count" validation failed: expected -1 to be at least 0`,
	} {
		e, _ := env(t)
		_, err := Plugin.Compile([]byte(conf), e)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", conf, err)
		}
	}
}
