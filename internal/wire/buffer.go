package wire

import "sync"

// The sizes of pooled buffers: 4 KiB, 16 KiB, 64 KiB … 16 MiB.
const (
	smallestBuffer = 4 << 10
	bufferClasses  = 7
)

var buffers [bufferClasses]sync.Pool

// A Buffer is pooled memory with one owner. B may be resliced, not replaced.
type Buffer struct {
	B     []byte
	class int8 // bufferClasses: larger than every class, not pooled
}

// GetBuffer returns a buffer of at least size bytes, of unspecified content.
func GetBuffer(size int) *Buffer {
	class, room := classOf(size)
	if class == bufferClasses {
		return &Buffer{B: make([]byte, size), class: bufferClasses}
	}
	if b, ok := buffers[class].Get().(*Buffer); ok {
		return b
	}
	return &Buffer{B: make([]byte, room), class: class}
}

// Free gives b back. Nothing may refer to its bytes any more.
func (b *Buffer) Free() {
	if b.class == bufferClasses {
		return
	}
	b.B = b.B[:cap(b.B)]
	buffers[b.class].Put(b)
}

func classOf(size int) (class int8, room int) {
	room = smallestBuffer
	for class < bufferClasses && room < size {
		class, room = class+1, room*4
	}
	return class, room
}
