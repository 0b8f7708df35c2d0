package resolve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// payload is the size of UDP messages that we say we take (RFC 6891); larger
// ones are asked for over TCP.
const payload = 1232

// attempt is the longest time that one server gets for one question.
const attempt = 2 * time.Second

// ask sends one question to the servers in turn, beginning with the one that
// answered last, until one answers or ctx ends.
func (c *Client) ask(ctx context.Context, servers []string, q dnsmessage.Question) (*dnsmessage.Message, error) {
	limit := min(attempt, c.cfg.Timeout/time.Duration(len(servers)+1))
	first := int(c.last.Load())
	var last error
	for round := 0; round < 2; round++ {
		for i := range servers {
			at := (first + i) % len(servers)
			msg, err := c.askServer(ctx, servers[at], q, limit)
			if err == nil {
				c.last.Store(int32(at))
				return msg, nil
			}
			if ctx.Err() != nil {
				return nil, errors.Join(last, ctx.Err())
			}
			last = fmt.Errorf("DNS server %s: %w", servers[at], err)
		}
	}
	return nil, last
}

// askServer puts the question to one server. An answer that says that there is
// no such name is one; an answer that says that the server could not find out
// is an error.
func (c *Client) askServer(ctx context.Context, server string, q dnsmessage.Question, limit time.Duration) (*dnsmessage.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	msg, err := roundTrip(ctx, "udp", server, q, true)
	if err == nil && msg.RCode == dnsmessage.RCodeFormatError {
		msg, err = roundTrip(ctx, "udp", server, q, false) // it may not know EDNS
	}
	if err == nil && msg.Truncated {
		msg, err = roundTrip(ctx, "tcp", server, q, true)
	}
	if err != nil {
		return nil, err
	}
	switch msg.RCode {
	case dnsmessage.RCodeSuccess, dnsmessage.RCodeNameError:
		return msg, nil
	}
	return nil, fmt.Errorf("answers %s", strings.TrimPrefix(msg.RCode.String(), "RCode"))
}

func roundTrip(ctx context.Context, network, server string, q dnsmessage.Question, edns bool) (*dnsmessage.Message, error) {
	id := uint16(rand.Uint32())
	query, err := pack(id, q, edns)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if network == "tcp" {
		return overTCP(conn, query, id, q)
	}
	return overUDP(conn, query, id, q)
}

func pack(id uint16, q dnsmessage.Question, edns bool) ([]byte, error) {
	// Two bytes in front are room for the length that TCP needs.
	b := dnsmessage.NewBuilder(make([]byte, 2, 514), dnsmessage.Header{ID: id, RecursionDesired: true})
	b.EnableCompression()
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(q); err != nil {
		return nil, err
	}
	if edns {
		if err := b.StartAdditionals(); err != nil {
			return nil, err
		}
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(payload, dnsmessage.RCodeSuccess, false); err != nil {
			return nil, err
		}
		if err := b.OPTResource(h, dnsmessage.OPTResource{}); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

func overUDP(conn net.Conn, query []byte, id uint16, q dnsmessage.Question) (*dnsmessage.Message, error) {
	if _, err := conn.Write(query[2:]); err != nil {
		return nil, err
	}
	b := make([]byte, 4096)
	for {
		n, err := conn.Read(b)
		if err != nil {
			return nil, err
		}
		// Whatever does not answer this very question may be forged: the answer
		// is still to come.
		if msg, ok := parse(b[:n], id, q); ok {
			return msg, nil
		}
	}
}

var errForeign = errors.New("does not answer the question")

func overTCP(conn net.Conn, query []byte, id uint16, q dnsmessage.Question) (*dnsmessage.Message, error) {
	binary.BigEndian.PutUint16(query, uint16(len(query)-2))
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, b); err != nil {
		return nil, err
	}
	msg, ok := parse(b, id, q)
	if !ok {
		return nil, errForeign
	}
	return msg, nil
}

// parse reads an answer to the question.
func parse(b []byte, id uint16, q dnsmessage.Question) (*dnsmessage.Message, bool) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil || h.ID != id || !h.Response {
		return nil, false
	}
	asked, err := p.AllQuestions()
	if err != nil || len(asked) != 1 || asked[0].Type != q.Type || asked[0].Class != q.Class ||
		canonical(asked[0].Name.String()) != canonical(q.Name.String()) {
		return nil, false
	}
	msg := &dnsmessage.Message{Header: h}
	if h.Truncated {
		return msg, true
	}
	if msg.Answers, err = p.AllAnswers(); err != nil {
		return nil, false
	}
	return msg, true
}
