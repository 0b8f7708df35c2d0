package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// The fuzz targets compare with net/http: we refuse a message, or agree with
// it on what the message says. What it refuses and we accept has a reason here.
// What we refuse and it accepts is not looked at: it is laxer by design.

func FuzzReadRequest(f *testing.F) {
	c := loadCorpus(f)
	for _, c := range c.Cases {
		if raw := expand(c.Raw); len(raw) < 4096 {
			f.Add([]byte(raw))
		}
	}
	for _, raw := range []string{typicalGet + typicalGet, chunkedPost + typicalGet,
		"GET http://a?b HTTP/1.1\r\nHost: c\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
		"CONNECT a:1 HTTP/1.1\r\nHost: h\r\n\r\n", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		limits := Limits{Head: 4096, Fields: 50, Trailer: 512, Tokens: 10}
		all := requests(strings.NewReader(string(raw)), limits, 4096)
		for _, size := range []int{1, 50, 4096} {
			if got := requests(iotest.OneByteReader(strings.NewReader(string(raw))), limits, size); !reflect.DeepEqual(got, all) {
				t.Fatalf("byte by byte, read by %d:\n got %v\nwant %v", size, got, all)
			}
		}
		compareRequests(t, string(raw), limits)
	})
}

func compareRequests(t *testing.T, raw string, limits Limits) {
	var r Reader
	r.Reset(strings.NewReader(raw), limits)
	// net/http leaves empty lines before a request to its server.
	theirs := bufio.NewReader(strings.NewReader(raw))
	for {
		var req Request
		if r.ReadRequest(&req) != nil {
			return
		}
		body, err := readAll(&r, 4096)
		if err != nil {
			return
		}
		skipBlank(theirs)
		other, err := http.ReadRequest(theirs)
		if err != nil {
			if reason := laxRequest(err); reason == "" {
				t.Fatalf("net/http refuses: %v\n%+v", err, req)
			}
			return
		}
		otherBody, err := io.ReadAll(other.Body)
		if err != nil {
			if !laxBody(err) {
				t.Fatalf("net/http refuses the body: %v", err)
			}
			return
		}
		agree(t, "body", body, string(otherBody))
		agree(t, "method", req.Method, other.Method)
		agree(t, "host", req.Host, other.Host)
		agree(t, "target", req.Target, theirTarget(other))
		agree(t, "close", req.Close, other.Close)
		agree(t, "version", req.Proto.String(), other.Proto)
		other.Header.Del("Trailer") // kept or not, depending on the framing
		agree(t, "header", headerOf(&req.Header, "Host", "Transfer-Encoding", "Trailer"), other.Header)
		agreeTrailer(t, r.Trailer(), other.Trailer)
	}
}

func skipBlank(b *bufio.Reader) {
	for {
		if p, _ := b.Peek(2); string(p) != "\r\n" {
			return
		}
		_, _ = b.Discard(2)
	}
}

// laxRequest is why we accept a head that net/http refuses.
func laxRequest(err error) string {
	var badURL *url.Error
	switch {
	case errors.As(err, &badURL):
		return "NormalizePath checks the path; a query is passed on as it is"
	case strings.Contains(err.Error(), "bad trailer key"):
		return "such trailers are dropped"
	}
	return ""
}

// laxBody reports whether we have a reason to accept a body net/http refuses.
func laxBody(err error) bool {
	// Our bound on chunk extensions is per chunk.
	return strings.Contains(err.Error(), "too much non-data")
}

func theirTarget(r *http.Request) string {
	uri := r.RequestURI
	if r.Method == "CONNECT" || strings.HasPrefix(uri, "/") || uri == "*" {
		return uri
	}
	_, uri, _ = strings.Cut(uri, "://")
	i := strings.IndexAny(uri, "/?")
	switch {
	case i < 0 && r.Method == "OPTIONS":
		return "*"
	case i < 0:
		return "/"
	case uri[i] == '?':
		return "/" + uri[i:]
	}
	return uri[i:]
}

func headerOf(h *Header, except ...string) http.Header {
	out := http.Header{}
	for _, f := range h.Fields() {
		key := textproto.CanonicalMIMEHeaderKey(f.Name)
		out[key] = append(out[key], f.Value)
	}
	for _, name := range except {
		delete(out, name)
	}
	return out
}

// agreeTrailer checks that a trailer we keep is one that net/http knows.
func agreeTrailer(t *testing.T, ours *Header, theirs http.Header) {
	t.Helper()
	for _, f := range ours.Fields() {
		if key := textproto.CanonicalMIMEHeaderKey(f.Name); !f.Dropped && !strings.Contains(fmt.Sprint(theirs[key]), f.Value) {
			t.Fatalf("trailer %s: %q, net/http: %q", f.Name, f.Value, theirs[key])
		}
	}
}

func agree(t *testing.T, what string, ours, theirs any) {
	t.Helper()
	if !reflect.DeepEqual(ours, theirs) {
		t.Fatalf("%s: %q, net/http: %q", what, ours, theirs)
	}
}

func FuzzReadResponse(f *testing.F) {
	for _, raw := range loadCorpus(f).Responses {
		f.Add([]byte(expand(raw)), false)
	}
	f.Add([]byte(typicalResponse+typicalResponse), false)
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.0 304\r\n\r\n"), true)
	f.Add([]byte("HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n1;x\r\na\r\n0\r\nA: b\r\n\r\n"), false)
	f.Fuzz(func(t *testing.T, raw []byte, head bool) {
		limits := Limits{Head: 4096, Fields: 50, Trailer: 512, Tokens: 10}
		method := map[bool]string{true: "HEAD", false: "GET"}[head]
		all := responses(strings.NewReader(string(raw)), method, limits, 4096)
		for _, size := range []int{1, 50, 4096} {
			if got := responses(iotest.OneByteReader(strings.NewReader(string(raw))), method, limits, size); !reflect.DeepEqual(got, all) {
				t.Fatalf("byte by byte, read by %d:\n got %v\nwant %v", size, got, all)
			}
		}
		compareResponses(t, string(raw), method, limits)
	})
}

func compareResponses(t *testing.T, raw, method string, limits Limits) {
	var r Reader
	r.Reset(strings.NewReader(raw), limits)
	theirs := bufio.NewReader(strings.NewReader(raw))
	for {
		var resp Response
		if r.ReadResponse(&resp, method) != nil {
			return
		}
		body, err := readAll(&r, 4096)
		if err != nil {
			return
		}
		other, err := http.ReadResponse(theirs, &http.Request{Method: method})
		if err != nil {
			if strings.Contains(err.Error(), "bad trailer key") {
				return // such trailers are dropped
			}
			t.Fatalf("net/http refuses: %v\n%+v", err, resp)
		}
		otherBody, err := io.ReadAll(other.Body)
		if err != nil {
			if !laxBody(err) {
				t.Fatalf("net/http refuses the body: %v", err)
			}
			return
		}
		agree(t, "body", body, string(otherBody))
		agree(t, "status", resp.Status, other.StatusCode)
		agree(t, "version", resp.Proto.String(), other.Proto)
		other.Header.Del("Trailer")
		agree(t, "header", headerOf(&resp.Header, "Transfer-Encoding", "Trailer"), other.Header)
		agreeTrailer(t, r.Trailer(), other.Trailer)
	}
}
