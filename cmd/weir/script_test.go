package main

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// await is the script command "await ADDRESS": it returns when something
// accepts connections there.
func await(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: await ADDRESS")
	}
	for range 3000 {
		c, err := net.Dial("tcp", args[0])
		if err == nil {
			ts.Check(c.Close())
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("nobody listens on %s", args[0])
}

// awaitGet is the script command "awaitget URL KEYFILE": it returns when a GET
// with that Admin key is answered with status 200.
func awaitGet(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: awaitget URL KEYFILE")
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 3000 {
		req, err := http.NewRequest(http.MethodGet, args[0], nil)
		ts.Check(err)
		req.Header.Set("X-API-KEY", strings.TrimSpace(ts.ReadFile(args[1])))
		res, err := client.Do(req)
		ts.Check(err)
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s is not there", args[0])
}

// request is the script command "http STATUS METHOD URL [HEADER: VALUE | @KEYFILE | BODY]...":
// the answer must have the status; its body becomes stdout.
func request(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: http STATUS METHOD URL ...")
	}
	var body string
	header := http.Header{}
	for _, a := range args[3:] {
		name, value, isHeader := strings.Cut(a, ": ")
		switch {
		case strings.HasPrefix(a, "@"):
			header.Set("X-API-KEY", strings.TrimSpace(ts.ReadFile(a[1:])))
		case isHeader:
			header.Set(name, value)
		default:
			body = a
		}
	}
	req, err := http.NewRequest(args[1], args[2], strings.NewReader(body))
	ts.Check(err)
	req.Header = header
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	ts.Check(err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	ts.Check(err)
	_, err = ts.Stdout().Write(b)
	ts.Check(err)
	if strconv.Itoa(res.StatusCode) != args[0] {
		ts.Fatalf("status %d instead of %s: %s", res.StatusCode, args[0], b)
	}
}
