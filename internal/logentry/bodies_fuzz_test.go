package logentry

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"testing"

	"github.com/andybalholm/brotli"
)

// FuzzDecode: what an upstream calls compressed is never told longer than allowed,
// and what is compressed comes out.
func FuzzDecode(f *testing.F) {
	f.Add("gzip", []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"), 10)
	f.Add("br", []byte{0x0b, 0x02, 0x80}, 100)
	f.Add("deflate", []byte("x\x9c"), 0)
	f.Fuzz(func(t *testing.T, coding string, body []byte, limit int) {
		limit = max(0, min(limit, 1<<20))
		if got := decode(coding, body, limit); len(got) > max(limit, len(body)) {
			t.Errorf("%s %x: %d bytes", coding, body, len(got))
		}
		if len(body) == 0 {
			return
		}
		for name, writer := range map[string]func(io.Writer) io.WriteCloser{
			"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
			"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
			"BR":      func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, 1) },
		} {
			var b bytes.Buffer
			w := writer(&b)
			if _, err := w.Write(body); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if got := decode(name, b.Bytes(), len(body)); !bytes.Equal(got, body) {
				t.Errorf("%s: %x became %x", name, body, got)
			}
		}
	})
}
