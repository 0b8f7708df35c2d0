package threescale

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/meter"
	"weir/internal/model"
)

const issuerName = "https://sso.test/auth/realms/a"

var verifyTime = time.Unix(1_700_000_000, 0)

func testRuntime() *Runtime {
	return NewRuntime(Settings{}, slog.New(slog.DiscardHandler), meter.New(0), func() time.Time { return verifyTime })
}

func encode(text []byte) string { return base64.RawURLEncoding.EncodeToString(text) }

// sign makes a token.
func sign(t testing.TB, header, payload, alg string, key any) string {
	t.Helper()
	text := encode([]byte(header)) + "." + encode([]byte(payload))
	return text + "." + encode(signature(t, alg, key, []byte(text)))
}

func signature(t testing.TB, alg string, key any, text []byte) []byte {
	must := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var digest []byte
	hash := hashOf(strings.Replace(alg, "HS", "RS", 1))
	if hash != 0 {
		h := hash.New()
		h.Write(text)
		digest = h.Sum(nil)
	}
	switch k := key.(type) {
	case []byte:
		m := hmac.New(hash.New, k)
		m.Write(text)
		return m.Sum(nil)
	case ed25519.PrivateKey:
		return ed25519.Sign(k, text)
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, digest)
		size := (k.Curve.Params().BitSize + 7) / 8
		both := must(make([]byte, 2*size), err)
		r.FillBytes(both[:size])
		s.FillBytes(both[size:])
		return both
	case *rsa.PrivateKey:
		switch {
		case alg[0] == 'P':
			return must(rsa.SignPSS(rand.Reader, k, hash, digest, nil))
		case k.N.BitLen() >= ownRSA:
			return must(rsa.SignPKCS1v15(nil, k, hash, digest))
		}
		padded := append([]byte{0, 1}, make([]byte, k.Size()-3-len(infos[hash])-len(digest))...)
		for i := 2; i < len(padded); i++ {
			padded[i] = 0xff
		}
		padded = append(append(append(padded, 0), infos[hash]...), digest...)
		return new(big.Int).Exp(new(big.Int).SetBytes(padded), k.D, k.N).FillBytes(make([]byte, k.Size()))
	}
	t.Fatalf("a %T signs nothing", key)
	return nil
}

// smallRSA makes a key that package crypto would not.
func smallRSA(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	e := big.NewInt(65537)
	for {
		p, err := rand.Prime(rand.Reader, bits/2)
		if err != nil {
			t.Fatal(err)
		}
		q, err := rand.Prime(rand.Reader, bits/2)
		if err != nil {
			t.Fatal(err)
		}
		one := big.NewInt(1)
		phi := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
		n := new(big.Int).Mul(p, q)
		d := new(big.Int).ModInverse(e, phi)
		if d == nil || n.BitLen() != bits {
			continue
		}
		return &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: n, E: 65537}, D: d, Primes: []*big.Int{p, q}}
	}
}

func publicPEM(t testing.TB, public any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func publicJSON(public any) json.RawMessage {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return fmt.Appendf(nil, `{"kty":"RSA","n":%q,"e":%q}`, encode(k.N.Bytes()), encode(big.NewInt(int64(k.E)).Bytes()))
	case *ecdsa.PublicKey:
		point, err := k.Bytes() // 4, then the coordinates (SEC 1)
		if err != nil {
			panic(err)
		}
		x, y := point[1:1+len(point)/2], point[1+len(point)/2:]
		return fmt.Appendf(nil, `{"kty":"EC","crv":%q,"x":%q,"y":%q}`, k.Curve.Params().Name, encode(x), encode(y)+"==")
	case ed25519.PublicKey:
		return fmt.Appendf(nil, `{"kty":"OKP","crv":"Ed25519","x":%q}`, encode(k))
	}
	return nil
}

type keyPair struct{ private, public any }

func keyPairs(t testing.TB) map[string]keyPair {
	t.Helper()
	pairs := map[string]keyPair{}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pairs["rsa"] = keyPair{r, &r.PublicKey}
	small := smallRSA(t, 512)
	pairs["small"] = keyPair{small, &small.PublicKey}
	for name, curve := range map[string]elliptic.Curve{"p256": elliptic.P256(), "p384": elliptic.P384(), "p521": elliptic.P521()} {
		k, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		pairs[name] = keyPair{k, &k.PublicKey}
	}
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pairs["ed"] = keyPair{priv, pub}
	return pairs
}

const goodClaims = `{"iss":"` + issuerName + `","sub":"someone","aud":"all","exp":1700000060,"foo":["bar"]}`

func header(alg, id string) string { return fmt.Sprintf(`{"alg":%q,"typ":"JWT","kid":%q}`, alg, id) }

// TestAlgorithms: an algorithm takes the signatures of a key of its kind in
// whatever form the key is given, and no others.
func TestAlgorithms(t *testing.T) {
	kinds := map[string][]string{
		"RS256": {"rsa", "small"}, "RS384": {"rsa"}, "RS512": {"rsa"}, "PS256": {"rsa"}, "PS384": {"rsa"}, "PS512": {"rsa"},
		"ES256": {"p256"}, "ES384": {"p384"}, "ES512": {"p521"}, "EdDSA": {"ed"},
	}
	all, others := keyPairs(t), keyPairs(t)
	o := &model.OIDC{Issuer: issuerName, Keys: map[string]model.JWK{}, Algorithms: []string{"none", "HS256"}}
	for name, k := range all {
		o.Keys[name] = model.JWK{PEM: publicPEM(t, k.public)}
		o.Keys[name+" json"] = model.JWK{JSON: publicJSON(k.public)}
		o.Keys[name+" in a line"] = model.JWK{PEM: strings.ReplaceAll(publicPEM(t, k.public), "\n", " ")}
	}
	for alg := range kinds {
		o.Algorithms = append(o.Algorithms, alg)
	}
	i, err := NewIssuer(testRuntime(), o)
	if err != nil {
		t.Fatal(err)
	}
	ok := func(raw string) bool {
		_, err := i.Verify(raw, verifyTime)
		return err == nil
	}
	for alg, names := range kinds {
		for _, name := range names {
			key := all[name]
			for _, form := range []string{"", " json", " in a line"} {
				good := sign(t, header(alg, name+form), goodClaims, alg, key.private)
				if !ok(good) {
					t.Errorf("%s by %s%s is refused", alg, name, form)
				}
				if ok(good[:len(good)-4]) || ok(good+"AAAA") {
					t.Errorf("%s by %s%s is taken with another length", alg, name, form)
				}
			}
			if ok(sign(t, header(alg, name), goodClaims, alg, others[name].private)) {
				t.Errorf("%s is taken by another key", alg)
			}
			if ok(sign(t, header("HS256", name), goodClaims, "HS256", []byte(o.Keys[name].PEM))) {
				t.Errorf("%s: its PEM is taken for a secret", name)
			}
			if ok(encode([]byte(header("none", name))) + "." + encode([]byte(goodClaims)) + ".") {
				t.Errorf("%s: no signature is taken for one", name)
			}
		}
		for name, key := range all {
			if _, isRSA := key.private.(*rsa.PrivateKey); alg[0] == 'E' && !isRSA && !slices.Contains(names, name) {
				if ok(sign(t, header(alg, name), goodClaims, alg, key.private)) {
					t.Errorf("%s is taken by %s", alg, name)
				}
			}
		}
	}
	for _, pair := range [][2]string{{"RS256", "PS256"}, {"PS256", "RS256"}, {"RS256", "RS512"}} {
		if ok(sign(t, header(pair[0], "rsa"), goodClaims, pair[1], all["rsa"].private)) {
			t.Errorf("%s is taken for %s", pair[1], pair[0])
		}
	}
}

func TestVerify(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rt := testRuntime()
	i, err := NewIssuer(rt, &model.OIDC{
		Issuer: issuerName, Algorithms: []string{"ES256", "RS256"},
		Keys: map[string]model.JWK{
			"k":     {JSON: publicJSON(&key.PublicKey)},
			"rs256": {JSON: publicJSON(&key.PublicKey), Alg: "RS256"},
			"odd":   {JSON: json.RawMessage(`{"kty":"oct","k":"AAAA"}`)},
		},
	})
	if err == nil || !strings.Contains(err.Error(), `key "odd" of `+issuerName) {
		t.Errorf("the unusable key: %v", err)
	}
	claims := func(change string) string {
		var m map[string]any
		if json.Unmarshal([]byte(goodClaims), &m) != nil || json.Unmarshal([]byte(change), &m) != nil {
			t.Fatal(change)
		}
		for k, v := range m {
			if v == "-" {
				delete(m, k)
			}
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, tc := range []struct{ name, header, payload, want string }{
		{"good", header("ES256", "k"), goodClaims, ""},
		{"algorithm", header("ES384", "k"), goodClaims, "[jwt] invalid alg"},
		{"no algorithm", `{"kid":"k"}`, goodClaims, "[jwt] invalid alg"},
		{"another realm's key", header("ES256", "b1"), goodClaims, ErrUnknownKey.Error()},
		{"no key", `{"alg":"ES256"}`, goodClaims, ErrUnknownKey.Error()},
		{"unusable key", header("ES256", "odd"), goodClaims, ErrUnknownKey.Error()},
		{"the key's algorithm", header("ES256", "rs256"), goodClaims, "[jwt] alg mismatch"},
		{"critical", `{"alg":"ES256","kid":"k","crit":["x"]}`, goodClaims, "must be understood"},
		{"no header", `[]`, goodClaims, "JWT not valid"},
		{"no claims", header("ES256", "k"), `[]`, "JWT not valid"},
		{"null", header("ES256", "k"), `null`, "JWT not valid"},
		{"no iss", header("ES256", "k"), claims(`{"iss":"-"}`), "claim iss"},
		{"another iss", header("ES256", "k"), claims(`{"iss":"https://other.test"}`), "claim iss"},
		{"no sub", header("ES256", "k"), claims(`{"sub":"-"}`), "claim sub"},
		{"no aud", header("ES256", "k"), claims(`{"aud":"-"}`), "claim aud"},
		{"several aud", header("ES256", "k"), claims(`{"aud":["a","b"]}`), ""},
		{"no exp", header("ES256", "k"), claims(`{"exp":"-"}`), "claim exp"},
		{"text exp", header("ES256", "k"), claims(`{"exp":"1700000060"}`), "claim exp"},
		{"ended", header("ES256", "k"), claims(`{"exp":1700000000}`), "claim exp"},
		{"never ends", header("ES256", "k"), claims(`{"exp":1e300}`), ""},
		{"begun", header("ES256", "k"), claims(`{"nbf":1700000000}`), ""},
		{"not begun", header("ES256", "k"), claims(`{"nbf":1700000001}`), "claim nbf"},
		{"odd nbf", header("ES256", "k"), claims(`{"nbf":"x"}`), "claim nbf"},
		{"iat", header("ES256", "k"), claims(`{"iat":1}`), ""},
		{"odd iat", header("ES256", "k"), claims(`{"iat":0}`), "claim iat"},
		{"typ", header("ES256", "k"), claims(`{"typ":"Bearer"}`), ""},
		{"another typ", header("ES256", "k"), claims(`{"typ":"ID"}`), "claim typ"},
	} {
		token, err := i.Verify(sign(t, tc.header, tc.payload, "ES256", key), verifyTime)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		if err == nil && (token.Claims["sub"] != "someone" || string(token.Payload) != tc.payload) {
			t.Errorf("%s: %+v", tc.name, token)
		}
	}
	good := sign(t, header("ES256", "k"), goodClaims, "ES256", key)
	for _, raw := range []string{"", ".", "..", "a.b", good + ".x", "." + good, "e30.e30.e30", "?" + good, strings.Replace(good, ".", "..", 1)} {
		if _, err := i.Verify(raw, verifyTime); err == nil {
			t.Errorf("%q is taken", raw)
		}
	}
	if token, err := i.Verify(good, verifyTime.Add(59*time.Second)); err != nil || token.Raw != good || token.Expires.Unix() != 1_700_000_060 {
		t.Errorf("%+v: %v", token, err)
	}
	if _, err := i.Verify(good, verifyTime.Add(time.Minute)); err == nil {
		t.Error("a remembered token outlives its end")
	}
	// What one issuer has verified is nothing to another, though it bears its name.
	other, err := NewIssuer(rt, &model.OIDC{Issuer: issuerName, Algorithms: []string{"ES256"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Verify(good, verifyTime); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("another issuer: %v", err)
	}
}

func TestNoIssuer(t *testing.T) {
	for _, o := range []*model.OIDC{nil, {Issuer: "", Algorithms: []string{"ES256"}}, {Issuer: issuerName}} {
		i, err := NewIssuer(testRuntime(), o)
		if err == nil {
			t.Errorf("%+v is one", o)
		}
		if _, err := i.Verify("a.b.c", verifyTime); err == nil || err.Error() != "missing OIDC configuration" {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestKeys(t *testing.T) {
	small := smallRSA(t, 256)
	for name, k := range map[string]model.JWK{
		"too small":      {JSON: publicJSON(&small.PublicKey)},
		"no PEM":         {PEM: "somekey"},
		"empty PEM":      {PEM: "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----"},
		"private":        {PEM: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"},
		"unended":        {PEM: "-----BEGIN PUBLIC KEY-----"},
		"curve":          {JSON: json.RawMessage(`{"kty":"EC","crv":"P-1","x":"AA","y":"AA"}`)},
		"not on it":      {JSON: json.RawMessage(`{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}`)},
		"long":           {JSON: json.RawMessage(`{"kty":"EC","crv":"P-256","x":"` + strings.Repeat("A", 100) + `","y":"AA"}`)},
		"Ed25519":        {JSON: json.RawMessage(`{"kty":"OKP","crv":"Ed25519","x":"AA"}`)},
		"exponent":       {JSON: json.RawMessage(`{"kty":"RSA","n":"` + strings.Repeat("A", 200) + `","e":"AAAAAAAAAAAAAAAAAA"}`)},
		"no JSON":        {},
		"kind":           {JSON: json.RawMessage(`{}`)},
		"no base64":      {JSON: json.RawMessage(`{"kty":"RSA","n":"?","e":"AQAB"}`)},
		"PKCS 1, broken": {PEM: "-----BEGIN RSA PUBLIC KEY-----\nAAAA\n-----END RSA PUBLIC KEY-----"},
		"certificate":    {PEM: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"},
	} {
		if v, err := newVerifier(k); err == nil {
			t.Errorf("%s: %+v", name, v)
		}
	}
	key := keyPairs(t)["rsa"].private.(*rsa.PrivateKey)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	for kind, der := range map[string][]byte{"CERTIFICATE": der, "RSA PUBLIC KEY": x509.MarshalPKCS1PublicKey(&key.PublicKey)} {
		v, err := newVerifier(model.JWK{PEM: string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))})
		if err != nil || !key.PublicKey.Equal(v.public.(crypto.PublicKey)) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestSmallRSA: what package crypto does not verify is verified as strictly.
func TestSmallRSA(t *testing.T) {
	key := smallRSA(t, 768)
	text := []byte("text")
	good := signature(t, "RS256", key, text)
	v := &verifier{public: &key.PublicKey}
	if !v.verify("RS256", text, good) {
		t.Error("refused")
	}
	raised := new(big.Int).Add(new(big.Int).SetBytes(good), key.N)
	for name, sig := range map[string][]byte{
		"cut": good[1:], "longer": append([]byte{0}, good...), "none": {}, "zero": make([]byte, len(good)),
		"above the modulus": raised.FillBytes(make([]byte, len(good)+1))[1:],
		"another hash":      signature(t, "RS384", key, text),
	} {
		if v.verify("RS256", text, sig) {
			t.Errorf("%s: taken", name)
		}
	}
	if v.verify("RS512", text, good) || v.verify("PS256", text, good) {
		t.Error("taken for another algorithm")
	}
}

func FuzzVerify(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	i, err := NewIssuer(testRuntime(), &model.OIDC{
		Issuer: issuerName, Algorithms: []string{"ES256", "RS256", "EdDSA", "none", "HS256"},
		Keys: map[string]model.JWK{"k": {JSON: publicJSON(&key.PublicKey)}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encode([]byte(header("none", "k"))) + "." + encode([]byte(goodClaims)) + ".")
	f.Add(encode([]byte(header("ES256", "k"))) + "." + encode([]byte(goodClaims)) + "." + encode(make([]byte, 64)))
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, raw string) {
		if _, err := i.Verify(raw, verifyTime); err == nil {
			t.Errorf("%q was never issued", raw)
		}
	})
}

func FuzzNormalPEM(f *testing.F) {
	f.Add("-----BEGIN A-----\nAAAA\n-----END A-----")
	f.Add("-----BEGIN A----- AAAA -----END A----- -----BEGIN")
	f.Fuzz(func(t *testing.T, text string) {
		once := NormalPEM(text)
		if twice := NormalPEM(string(once)); string(twice) != string(once) {
			t.Errorf("%q, then %q", once, twice)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	i, err := NewIssuer(testRuntime(), &model.OIDC{
		Issuer: issuerName, Algorithms: []string{"ES256"}, Keys: map[string]model.JWK{"k": {JSON: publicJSON(&key.PublicKey)}},
	})
	if err != nil {
		b.Fatal(err)
	}
	raw := sign(b, header("ES256", "k"), goodClaims, "ES256", key)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := i.Verify(raw, verifyTime); err != nil {
			b.Fatal(err)
		}
	}
}
