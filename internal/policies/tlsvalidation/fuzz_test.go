package tlsvalidation

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"testing"

	"weir/internal/threescale"
)

// FuzzList: of lists that nobody has signed none says that a certificate is good.
func FuzzList(f *testing.F) {
	root := issue(f, nil, ca)
	good, bad := issue(f, root, nil), issue(f, root, nil)
	valid := revoking(f, root, nil, bad)
	f.Add(valid)
	f.Add(revoking(f, root, func(l *x509.RevocationList) { l.NextUpdate = begin }))
	f.Add(revoking(f, issue(f, nil, ca), nil))
	f.Add("-----BEGIN X509 CRL----- AAAA -----END X509 CRL-----")
	signed, err := parseList(valid)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseList(text)
		if err != nil {
			return
		}
		all := lists{string(l.RawIssuer): {l}}
		if _, err := all.check(bad.cert, root.cert, begin); err == nil && string(l.RawTBSRevocationList) == string(signed.RawTBSRevocationList) {
			t.Errorf("%q: the revoked certificate is good", text)
		}
		if _, err := all.check(good.cert, root.cert, begin); err == nil && l.CheckSignatureFrom(root.cert) != nil {
			t.Errorf("%q says that a certificate is good", text)
		}
	})
}

// FuzzScope: a list that is not about all of an issuer's certificates is not taken.
func FuzzScope(f *testing.F) {
	for _, s := range [][]byte{{0x30, 0}, {0x30, 3, 0x81, 1, 0xff}, {0x30, 3, 0x82, 1, 0xff}, {0x30, 6, 0xa0, 4, 0xa0, 2, 0x86, 0}, {0x30, 3, 0x83, 1, 0x80}} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if understood(oidScope, true, value) != nil {
			return
		}
		var members asn1.RawValue
		if rest, err := asn1.Unmarshal(value, &members); err != nil || len(rest) > 0 {
			t.Fatalf("%x was taken", value)
		}
		for rest := members.Bytes; len(rest) > 0; {
			var m asn1.RawValue
			var err error
			if rest, err = asn1.Unmarshal(rest, &m); err != nil || m.Tag != 1 && (m.Tag != 2 && m.Tag != 4 && m.Tag != 5 || len(m.Bytes) != 1 || m.Bytes[0] != 0) {
				t.Fatalf("%x was taken: %v, %v", value, m, err)
			}
		}
	})
}

// FuzzCertificate: a list of certificates, as it stands in a configuration.
func FuzzCertificate(f *testing.F) {
	f.Add(issue(f, nil, ca).pem())
	f.Add("-----BEGIN X509 CERTIFICATE----- AAAA -----END X509 CERTIFICATE-----")
	f.Fuzz(func(t *testing.T, text string) {
		x, err := parse(text)
		if err != nil {
			return
		}
		block, _ := pem.Decode(threescale.NormalPEM(text))
		if selfSigned(x) && string(x.RawSubject) != string(x.RawIssuer) || string(block.Bytes) != string(x.Raw) {
			t.Errorf("%q: %v", text, x)
		}
	})
}
