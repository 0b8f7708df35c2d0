//go:build !linux

package bench

import (
	"context"
	"errors"
)

var errLinux = errors.New("only on Linux")

func limitDescriptors(int, int) error { return errLinux }

func needMount(*faultOptions) error { return errLinux }

func (t *trial) mount() error { return errLinux }

func (t *trial) unmount() {}

func fillDisk(context.Context, *trial) error { return errLinux }

type backlog struct{ addr string }

func fullBacklog() (*backlog, error) { return nil, errLinux }

func (b *backlog) close() {}
