package wire

import "testing"

func BenchmarkGet(b *testing.B) {
	var (
		r   Reader
		req Request
		out = make([]byte, 0, 8<<10)
	)
	r.Reset(endless(typicalGet), Limits{})
	b.SetBytes(int64(len(typicalGet)))
	b.ReportAllocs()
	for b.Loop() {
		out = forward(b, &r, &req, out, nil)
	}
}

func BenchmarkResponse(b *testing.B) {
	var (
		r    Reader
		resp Response
		out  = make([]byte, 0, 8<<10)
	)
	r.Reset(endless(typicalResponse), Limits{})
	b.SetBytes(int64(len(typicalResponse)))
	b.ReportAllocs()
	for b.Loop() {
		out = forwardResponse(b, &r, &resp, out)
	}
}

func BenchmarkChunked(b *testing.B) {
	var (
		r    Reader
		req  Request
		out  = make([]byte, 0, 8<<10)
		body = make([]byte, 4<<10)
	)
	r.Reset(endless(chunkedPost), Limits{})
	b.ReportAllocs()
	for b.Loop() {
		out = forward(b, &r, &req, out, body)
	}
}

func BenchmarkNormalizePath(b *testing.B) {
	dst := make([]byte, 0, 256)
	for name, target := range map[string]string{
		"plain":   "/anything/users/42/orders/7?verbose=1",
		"escaped": "/anything/users/J%C3%BCrgen/../orders//7?verbose=1",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, ok := NormalizePath(dst, target, PathOptions{}); !ok {
					b.Fatal("refused")
				}
			}
		})
	}
}
