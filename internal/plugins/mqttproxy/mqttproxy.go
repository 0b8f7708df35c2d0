// Package mqttproxy admits MQTT clients and lets upstreams be chosen by their
// client id.
package mqttproxy

import (
	"encoding/binary"
	"errors"
	"strings"

	"weir/internal/plugin"
)

// Stream is the plugin.
var Stream = plugin.DefineStream(
	plugin.Meta{
		Name: "mqtt-proxy", Priority: 1000, Guard: true,
		Doc: "Admits MQTT clients of one version and makes their client id the variable mqtt_client_id.",
	},
	compile,
)

// Config is the configuration on a stream route.
type Config struct {
	ProtocolName  string `json:"protocol_name"  schema:"default=MQTT" doc:"Name of the protocol that clients must give: MQTT, in version 3.1 MQIsdp."`
	ProtocolLevel int    `json:"protocol_level" schema:"required"     doc:"Version that clients must give: 4 is 3.1.1, 5 is 5.0."`
}

// refused ends a session, as APISIX does.
const refused = 503

func compile(c *Config, env plugin.Env) (plugin.Stream, error) {
	reply := &plugin.Reply{Status: refused}
	preread := func(s *plugin.StreamCtx) *plugin.Reply {
		p, err := read(s.Peek)
		switch {
		case err != nil:
			env.Log.Error("MQTT client refused", "owner", env.Owner, "client", s.Client, "err", err)
			return reply
		case p.name != c.ProtocolName || p.level != c.ProtocolLevel:
			env.Log.Error("MQTT client of another version refused", "owner", env.Owner, "client", s.Client,
				"protocol_name", p.name, "protocol_level", p.level)
			return reply
		}
		if p.client != "" {
			s.SetVar("mqtt_client_id", p.client)
		}
		return nil
	}
	return plugin.Stream{Preread: preread}, nil
}

// A connect is what a CONNECT packet says (MQTT 3.1.1 and 5.0, section 3.1).
type connect struct {
	name   string
	level  int
	client string
}

// mostPacket bounds what is read of a packet: everything up to the client id,
// which may be preceded by properties.
const mostPacket = 8 << 10

var (
	//lint:ignore ST1005 APISIX's words in the log
	errType     = errors.New("Received unexpected MQTT packet type+flags")
	errLength   = errors.New("the length of the MQTT packet is malformed")
	errPacket   = errors.New("the MQTT CONNECT packet is malformed")
	errTooLarge = errors.New("the MQTT CONNECT packet has too much before its client id")
)

// read reads a packet as far as it is needed.
func read(peek func(int) ([]byte, error)) (p connect, err error) {
	r := reader{peek: peek, left: 1 + maxVarint}
	if r.byte() != 0x10 {
		return p, r.fail(errType)
	}
	size := r.varint()
	if r.err != nil {
		return p, r.err
	}
	r.left = size
	p.name = r.text()
	p.level = int(r.byte())
	r.skip(3) // flags, keep alive
	if p.level == 5 {
		r.skip(r.varint()) // properties
	}
	p.client = r.text()
	return p, r.err
}

// maxVarint is the longest a variable byte integer can be.
const maxVarint = 4

// A reader takes the packet apart. After an error everything is empty.
type reader struct {
	peek func(int) ([]byte, error)
	at   int
	left int // of the packet
	err  error
}

func (r *reader) fail(err error) error {
	if r.err == nil {
		r.err = err
	}
	return r.err
}

// take returns the next n bytes, nil after an error.
func (r *reader) take(n int) []byte {
	switch {
	case r.err != nil:
	case n > r.left:
		r.err = errPacket
	case r.at+n > mostPacket:
		r.err = errTooLarge
	}
	if r.err != nil {
		return nil
	}
	b, err := r.peek(r.at + n)
	if err != nil {
		r.err = err
		return nil
	}
	b = b[r.at:]
	r.at, r.left = r.at+n, r.left-n
	return b
}

func (r *reader) skip(n int) { r.take(n) }

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) varint() (n int) {
	for shift := range maxVarint {
		b := r.byte()
		n |= int(b&0x7f) << (7 * shift)
		if b < 0x80 {
			return n
		}
	}
	_ = r.fail(errLength)
	return 0
}

// text is a text with its length before it.
func (r *reader) text() string {
	b := r.take(2)
	if b == nil {
		return ""
	}
	var text strings.Builder
	text.Write(r.take(int(binary.BigEndian.Uint16(b))))
	return text.String()
}
