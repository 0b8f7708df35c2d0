package nethttp

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"unsafe"

	"weir/internal/wire"
)

// What servers keep of an answer must not change with the memory that it was
// read into.
func TestFieldsAreCopied(t *testing.T) {
	for _, prefix := range []string{"", http.TrailerPrefix} {
		memory := []byte("X-One1x-two2X-One3X-Gone4")
		view := func(from, to int) string { return unsafe.String(&memory[from], to-from) }
		var from wire.Header
		from.Receive(view(0, 5), view(5, 6))
		from.Receive(view(6, 11), view(11, 12))
		from.Receive(view(12, 17), view(17, 18))
		from.Receive(view(18, 24), view(24, 25))
		from.Del("X-Gone")
		got := http.Header{}
		copyFields(got, prefix, &from)
		for i := range memory {
			memory[i] = 'y'
		}
		want := http.Header{prefix + "X-One": {"1", "3"}, prefix + "X-Two": {"2"}}
		if !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%q", got)
		}
	}
}
