package pemkey

import (
	"crypto"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"testing"
)

// public is the key's public half, which all forms have in common.
const public = "3059301306072a8648ce3d020106082a8648ce3d0301070342000430b6712669c3c34db776ebee5f5a1e1747cf5ea6bdc0d931cc9d8753bdd750e47becfdb7e6beb0b1069d2ccd3ded0e0ac8c0c7c5a7ff9c051904c81f6d1ba9ef"

// Made with openssl; the pass phrase is "secret".
var keys = map[string]string{
	"PKCS #8, AES-256, SHA-256": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjkBivF232AOgICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEOOLAAp/rQz/g7CGH41sLUAEgZDp
VKD7QIRUSyfrH3Ukk60IzJ4XlA2RNQDUadbphBXEw77unacjuS/JSX6NYdPMZYJ9
e3masgONPhFxrVWVRdpMrdnJx38Zsw8/9/e+O/XrBcP3j8mzd82GhrxXnMQBMezY
GlGiEh6132VusinViEgZ6xM8x6TzpS8jQW0cCGyqEqQd3PmQSh/5VmgVQyehJ4c=
-----END ENCRYPTED PRIVATE KEY-----
`,
	"PKCS #8, AES-128, SHA-1": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHeMEkGCSqGSIb3DQEFDTA8MBsGCSqGSIb3DQEFDDAOBAiqIzK+0Gue6gICCAAw
HQYJYIZIAWUDBAECBBDwyAmTiA69nuCkTUspMBkXBIGQxo0Gya28kMqHLpagBwzd
547TS+KqlqEVZUJc0GVRfV5tQYCMK5lL35LXjD8uhxXYm4l3JUD2ghvBLq4WNZeE
yN/NzINshBa0C8BBKeZb5avTuitSEaulgKFPy/iDOn0L4O3aoaIRpLEsy8NksOdi
jCxXrMhad9QC8z4xp/IzX4eCdNjmYQm8LzJJj/gwHuEq
-----END ENCRYPTED PRIVATE KEY-----
`,
	"PKCS #8, triple DES": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHjME4GCSqGSIb3DQEFDTBBMCkGCSqGSIb3DQEFDDAcBAgilzDGs/ziHwICCAAw
DAYIKoZIhvcNAgkFADAUBggqhkiG9w0DBwQIJKBif6Lqff0EgZC7ddbfnzlbzvbQ
mYvV9gHkj7xZHfg73wbmUpObaGwpFXMVtNqw3mitam5P1QTqhAkB5qdKYyHFjT/k
rUuBXi+zRbdTChj5gUoWKTUD9hgUwMlCUBhTuU9BBfvZlgIJ6y4ysSaO4m5ejc56
Fk86oZWEubumwUKVlIVEn9+McoxJ+eeDzl6+r9bI0rYzzDsOIxo=
-----END ENCRYPTED PRIVATE KEY-----
`,
	"DEK-Info": `-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-256-CBC,7F1B56131797C0D3F62D0BB959B16787

NupmtnJQ1NM7kiEqAdaPpRKEcK9j1eTZbo4NjUBIjlF1VSEyFnQSBKmXx/iqAYJR
oc3wLkvS9eJcI4PyeTKZDnQ9p8Bgb9q47R4O525MgGH5Ivab0DSG9wkFMoUT2X3C
haAWs5i41hDH7tIqrU/L/SuOcjhDF1J0Ls+EO+FUOYs=
-----END EC PRIVATE KEY-----
`,
	"plain": `-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIEV97rz3S06xxHqVdVubFEVMpvdtUNXFDuUAcDvryX9doAoGCCqGSM49
AwEHoUQDQgAEMLZxJmnDw023duvuX1oeF0fPXqa9wNkxzJ2HU73XUOR77P235r6w
sQadLM097Q4KyMDHxaf/nAUZBMgfbRup7w==
-----END EC PRIVATE KEY-----
`,
}

func TestOpen(t *testing.T) {
	for name, text := range keys {
		plain, err := Open([]byte(text), []string{"wrong", "secret"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, _ := pem.Decode(plain)
		var key any
		if key, err = x509.ParsePKCS8PrivateKey(b.Bytes); err != nil {
			key, err = x509.ParseECPrivateKey(b.Bytes)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		half, err := x509.MarshalPKIXPublicKey(key.(interface{ Public() crypto.PublicKey }).Public())
		if err != nil || hex.EncodeToString(half) != public {
			t.Errorf("%s: another key: %x, %v", name, half, err)
		}
		if _, err := Open([]byte(text), []string{"wrong", ""}); name != "plain" && !errors.Is(err, ErrPassPhrase) {
			t.Errorf("%s with a wrong pass phrase: %v", name, err)
		}
	}
	if _, err := Open([]byte("no key"), nil); !errors.Is(err, ErrNoKey) {
		t.Error(err)
	}
}

func FuzzOpen(f *testing.F) {
	for _, text := range keys {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := Open(text, []string{"x"}); err == nil {
			if _, err := Open(text, nil); err != nil {
				t.Errorf("opened without a need for the pass phrase: %v", err)
			}
		}
	})
}
