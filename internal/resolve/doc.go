// Package resolve turns names into addresses and keeps them fresh.
//
// A Client asks DNS servers (RFC 1035 over UDP and TCP) after looking into the
// hosts file. A Cache keeps what the names in use stand for: it asks again
// before an answer expires, so that requests do not wait, and holds on to the
// last good answer while asking fails.
package resolve

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"time"
)

// ErrNotFound is wrapped by the error for a name that has no address, as its
// DNS says. Other errors mean that it could not be found out.
var ErrNotFound = errors.New("name does not exist")

// A Record is one address that a name stands for.
type Record struct {
	Addr     netip.Addr
	Port     int // of an SRV record; 0: none
	Weight   int // 1, but for SRV records
	Priority int // the higher, the earlier in use: the negative of an SRV record's
}

// An Answer is what a name stands for. It is not changed once it is made.
type Answer struct {
	Records []Record // in a fixed order, whatever order a server sends
	TTL     time.Duration
}

// equal reports whether two answers name the same.
func (a *Answer) equal(b *Answer) bool { return slices.Equal(a.Records, b.Records) }

// order gives the records the order that does not depend on the server.
func order(records []Record) []Record {
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Addr.Compare(b.Addr),
			cmp.Compare(a.Port, b.Port), cmp.Compare(a.Weight, b.Weight))
	})
	return slices.Compact(records)
}

// A Type is a kind of record to ask for.
type Type string

// The types.
const (
	A     Type = "A"
	AAAA  Type = "AAAA"
	SRV   Type = "SRV"
	CNAME Type = "CNAME"
)
