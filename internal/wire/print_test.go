package wire

import "testing"

func TestPrint(t *testing.T) {
	for want, got := range map[string][]byte{
		"GET /a?b HTTP/1.1\r\n":                            AppendRequestLine(nil, "GET", "/a?b"),
		"HTTP/1.1 404 Not Found\r\n":                       AppendStatusLine(nil, 404, ""),
		"HTTP/1.1 503 Service Temporarily Unavailable\r\n": AppendStatusLine(nil, 503, ""),
		"HTTP/1.1 504 Gateway Time-out\r\n":                AppendStatusLine(nil, 504, ""),
		"HTTP/1.1 200 Fine\r\n":                            AppendStatusLine(nil, 200, "Fine"),
		"HTTP/1.1 999 \r\n":                                AppendStatusLine(nil, 999, ""),
		"Content-Length: 0\r\n":                            AppendFraming(nil, 0),
		"Content-Length: 123\r\n":                          AppendFraming(nil, 123),
		"Transfer-Encoding: chunked\r\n":                   AppendFraming(nil, Chunked),
		"":                                                 AppendFraming(nil, UntilClose),
		"1f\r\n":                                           AppendChunkSize(nil, 31),
		"0\r\n\r\n":                                        AppendLastChunk(nil, nil),
	} {
		if string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var h Header
	h.Add("X-A", "1")
	if got := string(AppendLastChunk(nil, &h)); got != "0\r\nX-A: 1\r\n\r\n" {
		t.Errorf("%q", got)
	}
	for _, n := range []int{1, 15, 16, 255, 4096, 1<<62 + 1} {
		var b [MaxChunkSize]byte
		if got, want := string(b[PutChunkSize(b[:], n):]), string(AppendChunkSize(nil, n)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
