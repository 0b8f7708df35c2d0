package tlsvalidation

import (
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
		var scope struct {
			Point      asn1.RawValue  `asn1:"optional,tag:0"`
			Users      bool           `asn1:"optional,tag:1"`
			CAs        bool           `asn1:"optional,tag:2"`
			Reasons    asn1.BitString `asn1:"optional,tag:3"`
			Indirect   bool           `asn1:"optional,tag:4"`
			Attributes bool           `asn1:"optional,tag:5"`
		}
		if rest, err := asn1.Unmarshal(value, &scope); err != nil || len(rest) > 0 {
			return errIndirect
		}
		if scope.Point.FullBytes != nil || scope.CAs || scope.Reasons.BitLength > 0 || scope.Indirect || scope.Attributes {
			return errIndirect
		}
	case critical:
		return fmt.Errorf("its extension %v is not understood", id)
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
