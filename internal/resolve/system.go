package resolve

import (
	"context"
	"errors"
	"net"
)

// System looks a name up as the operating system does, which tells no TTL.
func System(ctx context.Context, name string) (Answer, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return Answer{}, errors.Join(ErrNotFound, err)
	}
	if err != nil {
		return Answer{}, err
	}
	var four, six []Record
	for _, a := range addrs {
		if a = a.Unmap(); a.Is4() {
			four = append(four, Record{Addr: a, Weight: 1})
		} else {
			six = append(six, Record{Addr: a, Weight: 1})
		}
	}
	if four == nil {
		four = six
	}
	return Answer{Records: order(four), TTL: hostsTTL}, nil
}
