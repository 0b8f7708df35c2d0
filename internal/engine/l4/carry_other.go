//go:build !linux

package l4

import (
	"net"
	"sync/atomic"
)

func (s *session) carryTCP(dst, src *net.TCPConn, moved *atomic.Int64) error {
	return s.carryAny(dst, src, moved)
}
