// Package pemkey opens private keys in PEM that a pass phrase protects.
package pemkey

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
)

// Errors of Open.
var (
	ErrNoKey      = errors.New("there is no private key in it")
	ErrPassPhrase = errors.New("none of the pass phrases opens the private key")
)

// Open returns the text with its private key in plain form, which the first pass
// phrase that fits opens. A key that is not protected stays as it is. It knows
// PKCS #8 with PBES2 (RFC 8018: PBKDF2, AES or triple DES) and the older form that
// has a DEK-Info (RFC 1421).
func Open(text []byte, passPhrases []string) ([]byte, error) {
	var out []byte
	found := false
	for rest := text; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		if isKey(b) && !found {
			found = true
			var err error
			if b, err = open(b, passPhrases); err != nil {
				return nil, err
			}
		}
		out = append(out, pem.EncodeToMemory(b)...)
	}
	if !found {
		return nil, ErrNoKey
	}
	return out, nil
}

const pkcs8Type = "ENCRYPTED PRIVATE KEY"

func isKey(b *pem.Block) bool { return bytes.HasSuffix([]byte(b.Type), []byte("PRIVATE KEY")) }

func open(b *pem.Block, passPhrases []string) (*pem.Block, error) {
	//lint:ignore SA1019 keys of this form are in use; that they are weak is their owner's business
	legacy := x509.IsEncryptedPEMBlock(b)
	if !legacy && b.Type != pkcs8Type {
		return b, nil
	}
	for _, p := range passPhrases {
		if legacy {
			//lint:ignore SA1019 see above
			if der, err := x509.DecryptPEMBlock(b, []byte(p)); err == nil && parses(der) {
				return &pem.Block{Type: b.Type, Bytes: der}, nil
			}
			continue
		}
		der, err := pkcs8(b.Bytes, p)
		if err != nil {
			return nil, err
		}
		if parses(der) {
			return &pem.Block{Type: "PRIVATE KEY", Bytes: der}, nil
		}
	}
	return nil, ErrPassPhrase
}

// parses says that a key was opened with the right pass phrase.
func parses(der []byte) bool {
	_, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		_, err = x509.ParseECPrivateKey(der)
	}
	if err != nil {
		_, err = x509.ParsePKCS1PrivateKey(der)
	}
	return err == nil
}

// The structures of RFC 5958 section 3 and RFC 8018 appendix A.
type (
	encryptedKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	pbes2 struct {
		Derivation, Encryption pkix.AlgorithmIdentifier
	}
	pbkdf2Parameters struct {
		Salt       []byte
		Iterations int
		Length     int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
)

// maxIterations bounds the work that a key may ask for.
const maxIterations = 10_000_000

var hashes = map[string]func() hash.Hash{
	"":                    sha1.New,
	"1.2.840.113549.2.7":  sha1.New,
	"1.2.840.113549.2.9":  sha256.New,
	"1.2.840.113549.2.10": sha512.New384,
	"1.2.840.113549.2.11": sha512.New,
}

// ciphers are by algorithm: the length of the key, and the block cipher.
var ciphers = map[string]struct {
	length int
	block  func([]byte) (cipher.Block, error)
}{
	"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
	"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
	"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
}

// pkcs8 decrypts a key. With a wrong pass phrase the result is nonsense.
func pkcs8(der []byte, passPhrase string) ([]byte, error) {
	var k encryptedKey
	var scheme pbes2
	var derive pbkdf2Parameters
	var iv []byte
	if err := errors.Join(unmarshal(der, &k), unmarshal(k.Algorithm.Parameters.FullBytes, &scheme),
		unmarshal(scheme.Derivation.Parameters.FullBytes, &derive), unmarshal(scheme.Encryption.Parameters.FullBytes, &iv)); err != nil {
		return nil, errors.New("the private key is encrypted in a form that is not known")
	}
	prf := ""
	if derive.PRF.Algorithm != nil {
		prf = derive.PRF.Algorithm.String()
	}
	h, c := hashes[prf], ciphers[scheme.Encryption.Algorithm.String()]
	if h == nil || c.block == nil || derive.Iterations < 1 || derive.Iterations > maxIterations {
		return nil, fmt.Errorf("the private key is encrypted with %s, which is not known", scheme.Encryption.Algorithm)
	}
	key, err := pbkdf2.Key(h, passPhrase, derive.Salt, derive.Iterations, c.length)
	if err != nil {
		return nil, err
	}
	block, err := c.block(key)
	if err != nil {
		return nil, err
	}
	size := block.BlockSize()
	if len(iv) != size || len(k.Data) == 0 || len(k.Data)%size != 0 {
		return nil, errors.New("the private key is damaged")
	}
	out := make([]byte, len(k.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(out, k.Data)
	if pad := int(out[len(out)-1]); pad >= 1 && pad <= size {
		out = out[:len(out)-pad]
	}
	return out, nil
}

func unmarshal(der []byte, into any) error {
	rest, err := asn1.Unmarshal(der, into)
	if err == nil && len(rest) > 0 {
		err = errors.New("trailing data")
	}
	return err
}
