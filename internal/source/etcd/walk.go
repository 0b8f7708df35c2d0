package etcd

import clientv3 "go.etcd.io/etcd/client/v3"

// A walk chooses the ranges by which a directory is read. etcd counts all that is
// left of a range at every read of a part of it, so that many pages of one large
// range cost its square: a range that turns out large is followed by ranges of
// the keys that share their beginning with the last one that was read.
type walk struct {
	end   string // of the whole; exclusive
	from  string // what comes next
	last  string // the last key or end that was read
	most  int    // keys of a page
	limit int    // keys of the next page
	depth int    // length of the beginning that the keys of a range share; 0: the range is the whole rest
	poor  int    // ranges in a row with few keys
	large int64  // a range with more keys is worth dividing: counting it takes longer than reading a page
}

func newWalk(dir string, most int) *walk {
	return &walk{end: clientv3.GetPrefixRangeEnd(dir), from: dir, last: dir, most: most, limit: min(100, most), large: 200_000}
}

// bounds are the next range.
func (w *walk) bounds() (from, end string) {
	if w.depth == 0 {
		return w.from, w.end
	}
	end = clientv3.GetPrefixRangeEnd(w.last[:min(w.depth, len(w.last))])
	// After the last of all beginnings there is "\x00", which is no bound.
	if end <= w.from || end > w.end {
		end = w.end
	}
	return w.from, end
}

// took goes on behind a page and reports false at the end.
func (w *walk) took(res *clientv3.GetResponse) bool {
	// A page is kept near this size whatever the size of the objects.
	const least, most = 1 << 20, 4 << 20
	_, end := w.bounds()
	partial := res.More && len(res.Kvs) > 0
	if !partial && end == w.end {
		return false
	}
	if !partial {
		w.from, w.last = end, end
		// Few keys have this beginning: a shorter one has more.
		w.poor++
		if res.Count >= int64(w.limit/8) {
			w.poor = 0
		}
		if res.Count == 0 || w.poor == 2 {
			w.depth, w.poor = w.depth-1, 0
		}
		return true
	}
	size := 0
	for _, kv := range res.Kvs {
		size += len(kv.Value)
	}
	first, last := string(res.Kvs[0].Key), string(res.Kvs[len(res.Kvs)-1].Key)
	w.from, w.last = last+"\x00", last
	if res.Count > max(w.large, int64(8*w.limit)) {
		w.depth, w.poor = shared(first, last)+1, 0
	}
	switch {
	case size > most:
		w.limit = max(1, w.limit/2)
	case size < least:
		w.limit = min(4*w.limit, w.most)
	}
	return true
}

// shared is the length of the beginning that two texts share.
func shared(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
