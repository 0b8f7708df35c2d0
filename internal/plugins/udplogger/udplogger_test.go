package udplogger

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A receiver is a server that takes datagrams, and the plugin sending to it.
type receiver struct {
	net.PacketConn
	plugin.Phases
	said bytes.Buffer
}

func newReceiver(t *testing.T, conf string) *receiver {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{PacketConn: socket}
	keeper := new(plugin.Keeper)
	env := plugintest.Env(time.Now)
	env.Keep, env.Log = keeper.Uses(), slog.New(slog.NewTextHandler(&r.said, nil))
	_, port, _ := net.SplitHostPort(socket.LocalAddr().String())
	if r.Phases, err = Plugin.Compile([]byte(`{"host":"127.0.0.1","port":`+port+conf+`}`), env); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.Keep.Release(); keeper.Close(); socket.Close() })
	t.Cleanup(r.Phases.Close)
	return r
}

func (r *receiver) datagram(t *testing.T) []byte {
	t.Helper()
	b := make([]byte, 1<<16)
	r.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, _, err := r.ReadFrom(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// log logs one request with the URI.
func (r *receiver) log(uri string) {
	c := plugintest.NewCtx(uri)
	c.Client, c.Route = "192.0.2.1", nil
	r.Log(c)
}

func TestBatches(t *testing.T) {
	for _, c := range []struct {
		conf  string
		calls int
		want  string
	}{
		{`,"batch_max_size":1,"log_format":{"client":"$remote_addr"}`, 1, `{"client":"192.0.2.1"}`},
		{`,"batch_max_size":2,"log_format":{"client":"$remote_addr"}`, 2, `[{"client":"192.0.2.1"},{"client":"192.0.2.1"}]`},
	} {
		r := newReceiver(t, c.conf)
		for range c.calls {
			r.log("/")
		}
		if got := string(r.datagram(t)); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// TestLargeBatch: what does not fit in one datagram is sent in several.
func TestLargeBatch(t *testing.T) {
	r := newReceiver(t, `,"batch_max_size":3,"log_format":{"uri":"$request_uri"}`)
	for _, size := range []int{datagram, 30_000, 30_000, 30_000} {
		r.log("/" + strings.Repeat("x", size))
	}
	for _, want := range []int{2, 1} {
		var list []struct{ URI string }
		if err := json.Unmarshal(r.datagram(t), &list); err != nil {
			t.Fatal(err)
		}
		if len(list) != want || len(list[0].URI) != 30_001 {
			t.Errorf("%d entries, want %d", len(list), want)
		}
	}
	if !strings.Contains(r.said.String(), "does not fit in a datagram") {
		t.Errorf("the log: %s", &r.said)
	}
}

func TestConfig(t *testing.T) {
	for conf, want := range map[string]string{
		`{"port":1}`:                        `property "host" is required`,
		`{"host":"a"}`:                      `property "port" is required`,
		`{"host":"a","port":-1}`:            `property "port" validation failed: expected -1 to be at least 0`,
		`{"host":"a","port":1,"timeout":0}`: `property "timeout" validation failed: expected 0 to be at least 1`,
	} {
		_, err := Plugin.Compile([]byte(conf), plugintest.Env(time.Now))
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", conf, err)
		}
	}
}
