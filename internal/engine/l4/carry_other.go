//go:build !linux

package l4

import (
	"net"
)

func (s *session) carryTCP(dst, src *net.TCPConn, f flow) error {
	return s.carryAny(dst, src, f)
}
