package tlsvalidation

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Lists are lists of revoked certificates (RFC 5280 §5), by issuer.
type lists map[string][]*revocations

type revocations struct {
	*x509.RevocationList
	serials map[string]struct{}
}

// Why a certificate is not known to be good.
var (
	errRevoked  = errors.New("certificate revoked")
	errNoList   = errors.New("unable to get certificate CRL")
	errOld      = errors.New("CRL has expired")
	errEarly    = errors.New("CRL is not yet valid")
	errIndirect = errors.New("it covers only some certificates, or those of other issuers")
)

// newLists reads lists. One that cannot be used is left out: its issuer's
// certificates are refused.
func newLists(given []Certificate, env plugin.Env) lists {
	all := lists{}
	for i, entry := range given {
		l, err := parseList(entry.PEM)
		if err != nil {
			env.Log.Warn("failed to add crl certificate", "policy", name, "owner", env.Owner, "list", i, "err", err)
			continue
		}
		issuer := string(l.RawIssuer)
		all[issuer] = append(all[issuer], l)
	}
	return all
}

func parseList(text string) (*revocations, error) {
	block, _ := pem.Decode(threescale.NormalPEM(text))
	if block == nil || block.Type != "X509 CRL" {
		return nil, errors.New("it is no list of revoked certificates in PEM")
	}
	l, err := x509.ParseRevocationList(block.Bytes)
	if err != nil {
		return nil, err
	}
	for _, e := range l.Extensions {
		if err := understood(e.Id, e.Critical, e.Value); err != nil {
			return nil, err
		}
	}
	r := &revocations{l, map[string]struct{}{}}
	for _, e := range l.RevokedCertificateEntries {
		for _, x := range e.Extensions {
			if x.Critical { // another issuer's certificate
				return nil, errIndirect
			}
		}
		r.serials[e.SerialNumber.String()] = struct{}{}
	}
	return r, nil
}

// The extensions of lists that matter here (RFC 5280 §5.2).
var (
	oidNumber     = asn1.ObjectIdentifier{2, 5, 29, 20}
	oidScope      = asn1.ObjectIdentifier{2, 5, 29, 28}
	oidAuthority  = asn1.ObjectIdentifier{2, 5, 29, 35}
	oidDeltaBasis = asn1.ObjectIdentifier{2, 5, 29, 27}
)

// understood refuses lists that do not say all of every certificate of a client.
func understood(id asn1.ObjectIdentifier, critical bool, value []byte) error {
	switch {
	case id.Equal(oidNumber), id.Equal(oidAuthority):
		return nil
	case id.Equal(oidDeltaBasis):
		return errors.New("it tells changes only")
	case id.Equal(oidScope):
		return allCertificates(value)
	case critical:
		return fmt.Errorf("its extension %v is not understood", id)
	}
	return nil
}

// allCertificates refuses the scope of a list that is not about all of its issuer's
// certificates of clients (RFC 5280 section 5.2.5), or says more than is understood.
func allCertificates(scope []byte) error {
	var members asn1.RawValue
	if rest, err := asn1.Unmarshal(scope, &members); err != nil || len(rest) > 0 || members.Tag != asn1.TagSequence {
		return errIndirect
	}
	const users, authorities, indirect, attributes = 1, 2, 4, 5
	for rest := members.Bytes; len(rest) > 0; {
		var m asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &m); err != nil {
			return errIndirect
		}
		switch m.Tag {
		case users:
		case authorities, indirect, attributes:
			if !bytes.Equal(m.Bytes, []byte{0}) {
				return errIndirect
			}
		default:
			return errIndirect
		}
	}
	return nil
}

// check says until when leaf is known not to be revoked.
func (l lists) check(leaf, issuer *x509.Certificate, now time.Time) (until time.Time, err error) {
	err = errNoList
	for _, r := range l[string(leaf.RawIssuer)] {
		switch {
		case r.CheckSignatureFrom(issuer) != nil:
		case now.Before(r.ThisUpdate):
			err = errEarly
		case !r.NextUpdate.IsZero() && !now.Before(r.NextUpdate):
			err = errOld
		default:
			if _, revoked := r.serials[leaf.SerialNumber.String()]; revoked {
				return until, errRevoked
			}
			if until = r.NextUpdate; until.IsZero() {
				until = now.Add(longest)
			}
			err = nil
		}
		if err == nil {
			return until, nil
		}
	}
	return until, err
}
