package upstream

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
)

const (
	pointsPerWeight = 160

	// maxPoints bounds the memory of one ring. Weights beyond are scaled down.
	maxPoints = 1 << 18
)

// A hashRing chooses nodes by consistent hashing, on the ring that nginx's
// "hash ... consistent" and lua-resty-chash have: a node's points are CRC-32 of
// its host, a zero byte, its port and the previous point, 160 for each unit of
// weight. The ring does not depend on health: a key whose node is down goes to
// the next on the ring, and all other keys stay where they are.
type hashRing struct {
	nodes  []*node
	points []point // by hash
}

type point struct {
	hash uint32
	node int32 // in nodes
}

func newHashRing(nodes []*node) *hashRing {
	r := &hashRing{nodes: nodes}
	divisor, sum := commonDivisor(nodes), 0
	for _, n := range nodes {
		sum += n.weight / divisor
	}
	scale := 1.0
	if sum > maxPoints/pointsPerWeight {
		scale = maxPoints / pointsPerWeight / float64(sum)
	}
	for i, n := range nodes {
		count := max(1, int(pointsPerWeight*scale*float64(n.weight/divisor)))
		base := crc32.ChecksumIEEE([]byte(strings.ReplaceAll(n.addr, ":", "\x00")))
		var previous [4]byte
		for range count {
			hash := crc32.Update(base, crc32.IEEETable, previous[:])
			binary.LittleEndian.PutUint32(previous[:], hash)
			r.points = append(r.points, point{hash, int32(i)})
		}
	}
	slices.SortStableFunc(r.points, func(a, b point) int { return cmp.Compare(a.hash, b.hash) })
	return r
}

func (r *hashRing) pick(f *filter) *node {
	if !slices.ContainsFunc(r.nodes, f.passes) {
		return nil
	}
	at, _ := slices.BinarySearchFunc(r.points, f.key, func(p point, key uint32) int { return cmp.Compare(p.hash, key) })
	for i := range r.points {
		if n := r.nodes[r.points[(at+i)%len(r.points)].node]; f.passes(n) {
			return n
		}
	}
	return nil
}

// hashKey is a key's place on the ring.
func hashKey(key string) uint32 {
	// ChecksumIEEE of a string, without copying it.
	hash := ^uint32(0)
	for i := range len(key) {
		hash = crc32.IEEETable[byte(hash)^key[i]] ^ hash>>8
	}
	return ^hash
}
