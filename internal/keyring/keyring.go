// Package keyring encrypts the secrets in stored configuration as APISIX's
// apisix.data_encryption does: AES in CBC mode with the key as its own
// initialisation vector, PKCS#7 padding, base64. It keeps secrets from the eye
// of whoever reads the store, not from whoever may write it: equal values look
// equal and nothing is authenticated.
package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"weir/internal/document"
)

// A Ring is a list of keys. It is immutable and safe for concurrent use. A Ring
// without keys, nil among them, leaves everything as it is.
type Ring struct{ keys []key }

type key struct {
	block cipher.Block
	iv    []byte
}

// New makes a Ring of keys of 16 bytes (AES-128) or 32 bytes (AES-256). The
// first one encrypts, all of them decrypt. An error tells which key is wrong,
// not what it is.
func New(keys []string) (*Ring, error) {
	r := &Ring{}
	for i, k := range keys {
		if len(k) != 16 && len(k) != 32 {
			return nil, fmt.Errorf("data_encryption.keyring: key %d has %d bytes, not 16 or 32", i+1, len(k))
		}
		block, err := aes.NewCipher([]byte(k))
		if err != nil {
			return nil, fmt.Errorf("data_encryption.keyring: key %d: %w", i+1, err)
		}
		r.keys = append(r.keys, key{block, []byte(k)[:aes.BlockSize]})
	}
	return r, nil
}

// Encrypt returns the stored form of a secret.
func (r *Ring) Encrypt(plain string) string {
	if r == nil || len(r.keys) == 0 {
		return plain
	}
	pad := aes.BlockSize - len(plain)%aes.BlockSize
	text := append([]byte(plain), bytes.Repeat([]byte{byte(pad)}, pad)...)
	k := r.keys[0]
	cipher.NewCBCEncrypter(k.block, k.iv).CryptBlocks(text, text)
	return base64.StdEncoding.EncodeToString(text)
}

// Decrypt returns the secret that Encrypt made stored of, under any of the
// keys. It reports false, and returns what it got, for what was not encrypted
// or with another key.
//
// A wrong key passes the padding check once in 256 times; that a secret is
// UTF-8 makes taking one for right rare.
func (r *Ring) Decrypt(stored string) (plain string, ok bool) {
	if r == nil || len(r.keys) == 0 {
		return stored, true
	}
	text, err := base64.StdEncoding.DecodeString(stored)
	if err != nil || len(text) == 0 || len(text)%aes.BlockSize != 0 {
		return stored, false
	}
	out := make([]byte, len(text))
	for _, k := range r.keys {
		cipher.NewCBCDecrypter(k.block, k.iv).CryptBlocks(out, text)
		if plain, ok := unpad(out); ok && utf8.Valid(plain) {
			return string(plain), true
		}
	}
	return stored, false
}

func unpad(text []byte) ([]byte, bool) {
	n := int(text[len(text)-1])
	if n == 0 || n > aes.BlockSize {
		return nil, false
	}
	for _, b := range text[len(text)-n:] {
		if int(b) != n {
			return nil, false
		}
	}
	return text[:len(text)-n], true
}

// EncryptFields encrypts what lies in a plugin's configuration at the paths of
// its schema's encrypt_fields: dotted names; arrays are gone through; the end
// is a string, an array of strings or an object of strings.
func (r *Ring) EncryptFields(conf *document.Value, paths []string) {
	for _, p := range paths {
		conf.Strings(p, r.Encrypt)
	}
}

// DecryptFields undoes EncryptFields. What does not decrypt stays.
func (r *Ring) DecryptFields(conf *document.Value, paths []string) {
	for _, p := range paths {
		conf.Strings(p, r.decrypted)
	}
}

func (r *Ring) decrypted(stored string) string {
	plain, _ := r.Decrypt(stored)
	return plain
}

// Open is DecryptFields for a configuration as it is stored. What is not JSON
// comes back as it is.
func (r *Ring) Open(conf []byte, paths []string) []byte {
	if r == nil || len(r.keys) == 0 || len(paths) == 0 {
		return conf
	}
	v, err := document.Parse(conf)
	if err != nil {
		return conf
	}
	r.DecryptFields(v, paths)
	return v.Append(make([]byte, 0, len(conf)))
}

// pem starts every private key in plain text.
const pem = "---"

// EncryptKey returns the stored form of a private key. What is not PEM is
// taken to be encrypted.
func (r *Ring) EncryptKey(text string) string {
	if strings.HasPrefix(text, pem) {
		return r.Encrypt(text)
	}
	return text
}

// OpenKey returns a stored private key in plain text.
func (r *Ring) OpenKey(stored string) (text string, ok bool) {
	if strings.HasPrefix(stored, pem) {
		return stored, true
	}
	return r.Decrypt(stored)
}
