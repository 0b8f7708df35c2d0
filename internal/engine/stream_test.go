package engine

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	gzipplugin "weir/internal/plugins/gzip"
)

// An event of a compressed stream arrives before the next one is there.
func TestCompressedStream(t *testing.T) {
	next := make(chan struct{})
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		if _, err := o.head(r); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for i := range 3 {
			fmt.Fprintf(c, "9\r\ndata: %d\n\n\r\n", i)
			<-next
		}
		fmt.Fprint(c, "0\r\n\r\n")
	})
	g := startWith(t, nil, gzipplugin.Plugin)
	g.put("routes/1", route("/events", up.addr, `,"plugins":{"gzip":{"types":["text/event-stream"]}}`))
	conn := g.dial()
	conn.send("GET /events HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n")
	res, err := http.ReadResponse(conn.r, &http.Request{Method: "GET"})
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(res.Body)
	if err != nil || res.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal(err, res.Header)
	}
	for i := range 3 {
		event := make([]byte, 9)
		if _, err := io.ReadFull(z, event); err != nil || string(event) != fmt.Sprintf("data: %d\n\n", i) {
			t.Fatalf("%q %v", event, err)
		}
		next <- struct{}{}
	}
	if rest, err := io.ReadAll(z); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
}

// A plugin that changes bodies does not hold events back: each arrives before the
// next one is sent (field case 174).
func TestFilteredStream(t *testing.T) {
	next := make(chan struct{})
	up := serve(t, func(o *origin, c net.Conn, r *bufio.Reader) {
		if _, err := o.head(r); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for i := range 3 {
			fmt.Fprintf(c, "9\r\ndata: %d\n\n\r\n", i)
			<-next
		}
		fmt.Fprint(c, "0\r\n\r\n")
	})
	g := start(t, nil)
	g.put("routes/1", route("/events", up.addr, `,"plugins":{"probe":{"upper":true}}`))
	conn := g.dial()
	conn.send("GET /events HTTP/1.1\r\nHost: a.test\r\n\r\n")
	res, err := http.ReadResponse(conn.r, &http.Request{Method: "GET"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		event := make([]byte, 9)
		if _, err := io.ReadFull(res.Body, event); err != nil || string(event) != fmt.Sprintf("DATA: %d\n\n", i) {
			t.Fatalf("%q %v", event, err)
		}
		next <- struct{}{}
	}
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
}
