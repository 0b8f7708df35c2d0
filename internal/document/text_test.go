package document

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadText(t *testing.T) {
	for _, n := range []int{0, 1, 16<<10 - 1, 16 << 10, 16<<10 + 1, 100 << 10, 20 << 20} {
		want := strings.Repeat("x", n)
		for _, size := range []int64{-1, 0, int64(n), int64(n) / 2, int64(n) + 7} {
			if got, err := ReadText(strings.NewReader(want), size); err != nil || string(got) != want {
				t.Errorf("%d bytes, said to be %d: %d, %v", n, size, len(got), err)
			}
		}
	}
	if got, err := ReadText(iotest.OneByteReader(strings.NewReader("abc")), -1); err != nil || string(got) != "abc" {
		t.Errorf("%q, %v", got, err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := ReadText(io.MultiReader(strings.NewReader(strings.Repeat("x", 64<<20)), iotest.ErrReader(io.ErrUnexpectedEOF)), -1)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, io.ErrUnexpectedEOF) || n > 3*64<<20 { // the text itself is one
		t.Errorf("%v, %d bytes allocated", err, n)
	}
}
