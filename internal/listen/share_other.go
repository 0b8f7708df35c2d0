//go:build !linux

package listen

import (
	"errors"
	"syscall"
)

func share(string, string, syscall.RawConn) error {
	return errors.New("apisix.enable_reuseport needs Linux")
}

func direct(syscall.Conn) {}
