package requestid

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"math/rand/v2"
	"time"
)

// fill makes b random.
func fill(b *[16]byte) {
	binary.LittleEndian.PutUint64(b[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
}

// uuid4 is a random UUID (RFC 9562 §5.4).
func uuid4(dst []byte) []byte {
	var u [16]byte
	fill(&u)
	return appendUUID(dst, &u, 4)
}

// uuid7 is a UUID that sorts by time (RFC 9562 §5.7).
func uuid7(dst []byte, now time.Time) []byte {
	var u, ms [16]byte
	fill(&u)
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli()))
	copy(u[:6], ms[2:8])
	return appendUUID(dst, &u, 7)
}

func appendUUID(dst []byte, u *[16]byte, version byte) []byte {
	u[6] = u[6]&0x0f | version<<4
	u[8] = u[8]&0x3f | 0x80
	dst = append(hex.AppendEncode(dst, u[:4]), '-')
	dst = append(hex.AppendEncode(dst, u[4:6]), '-')
	dst = append(hex.AppendEncode(dst, u[6:8]), '-')
	dst = append(hex.AppendEncode(dst, u[8:10]), '-')
	return hex.AppendEncode(dst, u[10:])
}

// ksuidEpoch is where KSUIDs count seconds from (segmentio/ksuid).
const ksuidEpoch = 1_400_000_000

// ksuid is 4 bytes of seconds and 16 random ones as a number to base 62 of 27
// digits.
func ksuid(dst []byte, now time.Time) []byte {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	number := [5]uint32{uint32(now.Unix() - ksuidEpoch)}
	for i := 1; i < len(number); i++ {
		number[i] = rand.Uint32()
	}
	var text [27]byte
	for i := len(text) - 1; i >= 0; i-- {
		rest := uint32(0)
		for j := range number {
			number[j], rest = bits.Div32(rest, number[j], 62)
		}
		text[i] = digits[rest]
	}
	return append(dst, text[:]...)
}

// pick appends n random characters of a set.
func pick(dst []byte, n int, set string) []byte {
	for range n {
		dst = append(dst, set[rand.IntN(len(set))])
	}
	return dst
}
