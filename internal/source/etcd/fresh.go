package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
)

// fresh are the credentials of a client that makes its configuration anew for every
// handshake.
type fresh struct{ make func() (*tls.Config, error) }

// ClientHandshake implements credentials.TransportCredentials.
func (f fresh) ClientHandshake(ctx context.Context, authority string, nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	cfg, err := f.make()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(cfg).ClientHandshake(ctx, authority, nc)
}

// ServerHandshake implements credentials.TransportCredentials.
func (f fresh) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("etcd: credentials of a client")
}

// Info implements credentials.TransportCredentials.
func (f fresh) Info() credentials.ProtocolInfo { return credentials.NewTLS(nil).Info() }

// Clone implements credentials.TransportCredentials.
func (f fresh) Clone() credentials.TransportCredentials { return f }

// OverrideServerName implements credentials.TransportCredentials, for nobody: the name
// is part of the configuration.
func (f fresh) OverrideServerName(string) error { return errors.New("etcd: not supported") }
