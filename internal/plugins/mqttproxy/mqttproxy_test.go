package mqttproxy

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

// peeker is a client that has sent b and nothing else.
func peeker(b string) func(int) ([]byte, error) {
	return func(n int) ([]byte, error) {
		if n > len(b) {
			return nil, errors.New("no more")
		}
		return []byte(b[:n]), nil
	}
}

func Test(t *testing.T) {
	for _, c := range []struct {
		name, conf, sent, id string
		refused              bool
	}{
		{"3.1.1", `{"protocol_level":4}`, "\x10\x0f\x00\x04MQTT\x04\x02\x00\x3c\x00\x03foo", "foo", false},
		{"no id", `{"protocol_level":4}`, "\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00", "", false},
		{"5", `{"protocol_level":5}`, "\x10\x1b\x00\x04MQTT\x05\x02\x00\x3c\x05\x11\x00\x00\x0e\x10\x00\x09clint-111", "clint-111", false},
		{"5, no properties", `{"protocol_level":5}`, "\x10\x0e\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x01f", "f", false},
		{"length in two bytes", `{"protocol_level":4}`, "\x10\x8f\x00\x00\x04MQTT\x04\x02\x00\x3c\x00\x03foo", "foo", false},
		{"another level", `{"protocol_level":5}`, "\x10\x0f\x00\x04MQTT\x04\x02\x00\x3c\x00\x03foo", "", true},
		{"another name", `{"protocol_level":4,"protocol_name":"MQIsdp"}`, "\x10\x0f\x00\x04MQTT\x04\x02\x00\x3c\x00\x03foo", "", true},
		{"no packet", `{"protocol_level":4}`, "mmm", "", true},
		{"cut", `{"protocol_level":4}`, "\x10\x0f\x00\x04MQTT\x04\x02", "", true},
		{"beyond the packet", `{"protocol_level":4}`, "\x10\x0e\x00\x04MQTT\x04\x02\x00\x3c\x00\x03foo", "", true},
		{"endless length", `{"protocol_level":4}`, "\x10\xff\xff\xff\xff\xff", "", true},
		{"large properties", `{"protocol_level":5}`, "\x10\xff\xff\xff\x7f\x00\x04MQTT\x05\x02\x00\x3c\xff\xff\x7f", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ph, err := Stream.Compile([]byte(c.conf), plugintest.Env(time.Now))
			if err != nil {
				t.Fatal(err)
			}
			s := &plugin.StreamCtx{Peek: peeker(c.sent)}
			reply := ph.Preread(s)
			if id, _ := s.Var("mqtt_client_id"); (reply != nil) != c.refused || id != c.id {
				t.Errorf("refused %v, client id %q", reply != nil, id)
			}
		})
	}
	if _, err := Stream.Compile([]byte(`{}`), plugintest.Env(time.Now)); err == nil ||
		err.Error() != `failed to check the configuration of stream plugin [mqtt-proxy]: property "protocol_level" is required` {
		t.Errorf("%v", err)
	}
}

// FuzzRead: what clients send does not make it read beyond that or panic.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\x10\x1b\x00\x04MQTT\x05\x02\x00\x3c\x05\x11\x00\x00\x0e\x10\x00\x09clint-111"))
	f.Add([]byte("\x10\x8f\x00\x00\x04MQTT\x04\x02\x00\x3c\x00\x03foo"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		p, err := read(peeker(string(sent)))
		if err == nil && !bytes.Contains(sent, []byte(p.client)) {
			t.Errorf("client id %q", p.client)
		}
	})
}
