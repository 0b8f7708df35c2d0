package tlsvalidation

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"sync/atomic"

	"weir/internal/cache"
	"weir/internal/plugin"
)

// Known is what all configurations of the process remember of certificates.
type known struct {
	numbers atomic.Uint64 // of configurations
	valid   *cache.Cache[verdict]
	ocsp    *statuses
}

// room bounds what is remembered, in bytes.
const room = 8 << 20

func openKnown(env plugin.Env) *known {
	return plugin.Lasting(env, name, func() *known {
		return &known{valid: cache.New[verdict](room, env.Now), ocsp: newStatuses(env)}
	})
}

// Close ends what is under way.
func (k *known) Close() { k.ocsp.close() }

// key is a certificate as a configuration sees it.
func (v *validator) key(leaf *x509.Certificate) (key [8 + sha256.Size]byte) {
	binary.BigEndian.PutUint64(key[:8], v.number)
	sum := sha256.Sum256(leaf.Raw)
	copy(key[8:], sum[:])
	return key
}
