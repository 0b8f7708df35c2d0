package bench

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/bench/reference"
)

// soakMembers are what the section apisix has for soaks: a TLS port and ports of
// stream routes.
func soakMembers(tls int, streams []int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  ssl:\n    enable: true\n    listen:\n      - ip: 127.0.0.1\n        port: %d\n", tls)
	b.WriteString("  proxy_mode: http&stream\n  stream_proxy:\n    tcp:\n")
	for _, port := range streams {
		fmt.Fprintf(&b, "      - 127.0.0.1:%d\n", port)
	}
	return b.String()
}

// soakOrigins are n origins that say which they are, and pairs for ssls.
func soakOrigins(n, pairs int) (o reference.Origins, stop func(), err error) {
	for i := range pairs {
		pair, err := soakPair(i + 1)
		if err != nil {
			return o, nil, err
		}
		o.Pairs = append(o.Pairs, pair)
	}
	var servers []*http.Server
	var wg sync.WaitGroup
	stop = func() {
		for _, s := range servers {
			_ = s.Close()
		}
		wg.Wait()
	}
	var both http.Protocols
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	for i := range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			stop()
			return o, nil, err
		}
		s := &http.Server{Protocols: &both, Handler: soakOrigin(strconv.Itoa(i + 1))}
		servers = append(servers, s)
		wg.Go(func() { _ = s.Serve(ln) })
		o.Nodes = append(o.Nodes, ln.Addr().String())
	}
	return o, stop, nil
}

// soakOrigin answers requests, and calls with a message whose field 1 is its name.
func soakOrigin(name string) http.Handler {
	message := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(name)+2))
	message = append(append(message, 0x0a, byte(len(name))), name...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(reference.NodeHeader, name)
		if r.Header.Get("Content-Type") != "application/grpc" {
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "grpc-status")
		_, _ = w.Write(message)
		w.Header().Set("grpc-status", "0")
	})
}

// soakPair is a certificate that is named by a number, and its key.
func soakPair(n int) (p reference.Pair, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return p, err
	}
	made := &x509.Certificate{
		SerialNumber: big.NewInt(int64(n)), Subject: pkix.Name{CommonName: strconv.Itoa(n)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
	}
	cert, err := x509.CreateCertificate(rand.Reader, made, made, &key.PublicKey, key)
	if err != nil {
		return p, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return reference.Pair{Cert: text("CERTIFICATE", cert), Key: text("PRIVATE KEY", secret)}, err
}
