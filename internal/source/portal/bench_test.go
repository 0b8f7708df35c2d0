package portal

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkRefresh is what a refresh of 10,000 products costs beside the portal's
// answer: none or one of them has changed.
func BenchmarkRefresh(b *testing.B) {
	const n = 10_000
	docs := make([]string, n)
	for i := range docs {
		docs[i] = svc(i, fmt.Sprintf("h%d", i), `,"secret_token":"`+strings.Repeat("x", 3000)+`"`)
	}
	for _, changed := range []int{0, 1} {
		b.Run(fmt.Sprintf("changed=%d", changed), func(b *testing.B) {
			list := services(docs...)
			s := (&state{}).whole(list, nil)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				next := list
				if changed > 0 {
					next = append([]service(nil), list...)
					next[n/2] = services(svc(n/2, "h", fmt.Sprintf(`,"secret_token":"%d"`, i)))[0]
				}
				after := s.whole(next, nil)
				if d := after.since(s); len(d.Put) != changed {
					b.Fatal(len(d.Put))
				}
			}
		})
	}
}
