//go:build !linux

package wire

import (
	"io"
	"net"
)

func direct(tcp *net.TCPConn) io.ReadWriter { return tcp }
