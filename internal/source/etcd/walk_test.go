package etcd

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// fakeRange answers as etcd does, and says how many keys it has counted.
func fakeRange(keys []string, from, end string, limit int) (*clientv3.GetResponse, int) {
	low, _ := slices.BinarySearch(keys, from)
	high, _ := slices.BinarySearch(keys, end)
	found := keys[low:max(low, high)]
	res := &etcdserverpb.RangeResponse{Count: int64(len(found)), More: len(found) > limit}
	for _, k := range found[:min(limit, len(found))] {
		res.Kvs = append(res.Kvs, &mvccpb.KeyValue{Key: []byte(k), Value: make([]byte, 100)})
	}
	return (*clientv3.GetResponse)(res), len(found)
}

// TestWalk reads directories of many shapes: every key comes once and in order,
// and what etcd counts on the way grows with the keys, not with their square.
func TestWalk(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func(i int) string{
		"numbers":    func(i int) string { return fmt.Sprintf("consumers/bench_%d", i) },
		"padded":     func(i int) string { return fmt.Sprintf("consumers/%08d", i) },
		"random":     func(int) string { return fmt.Sprintf("consumers/%016x", r.Uint64()) },
		"owned":      func(i int) string { return fmt.Sprintf("consumers/u%d/credentials/c%d", i/3, i) },
		"high bytes": func(i int) string { return fmt.Sprintf("consumers/\xff\xff%c%d", 0xf0+i%16, i) },
		"words": func(i int) string {
			return "consumers/" + strings.Repeat("a", r.IntN(12)) + strings.Repeat("b", r.IntN(12)) + fmt.Sprint(i)
		},
	}
	for name, shape := range shapes {
		for _, n := range []int{0, 1, 100, 20_000} {
			for _, most := range []int{1, 7, 500} {
				if n/most > 5000 {
					continue
				}
				t.Run(fmt.Sprint(name, n, "/", most), func(t *testing.T) {
					keys := []string{"/apisix/zz", "/apisix/routes/1", "/apisiy"}
					for i := range n {
						keys = append(keys, "/apisix/"+shape(i))
					}
					slices.Sort(keys)
					keys = slices.Compact(keys)
					w := newWalk("/apisix/", most)
					w.large = int64(4 * most)
					var got []string
					counted, reads := 0, 0
					for more := true; more; reads++ {
						from, end := w.bounds()
						res, count := fakeRange(keys, from, end, w.limit)
						for _, kv := range res.Kvs {
							got = append(got, string(kv.Key))
						}
						counted += count
						if more = w.took(res); reads > 20*len(keys)+200 {
							t.Fatal("no end")
						}
					}
					if want := keys[:len(keys)-1]; !slices.Equal(got, want) {
						t.Fatalf("%d keys, want %d", len(got), len(want))
					}
					// All pages of one range would count n²/2/most.
					if name != "words" && most == 500 && n == 20_000 && counted > 12*n {
						t.Errorf("%d keys counted in %d reads, of %d", counted, reads, n)
					}
				})
			}
		}
	}
}
