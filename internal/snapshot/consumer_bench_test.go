package snapshot

import (
	"fmt"
	"runtime"
	"testing"

	"weir/internal/model"
)

// BenchmarkConsumers is a first state of 200,000 consumers, and what each of them
// then takes:
//
//	go test ./internal/snapshot -run - -bench Consumers -benchtime 3x
func BenchmarkConsumers(b *testing.B) {
	const consumers = 200_000
	var bytes float64
	for b.Loop() {
		b.StopTimer()
		before := heap()
		d := manyConsumers(consumers)
		a := newBench(b)
		b.StartTimer()
		a.Apply(d)
		b.StopTimer()
		d = model.Delta{}
		bytes += float64(heap()-before) / consumers
		if n := a.Current().Count(model.KindConsumer); n != consumers {
			b.Fatal(n)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/consumers, "ns/consumer")
	b.ReportMetric(bytes/float64(b.N), "B/consumer")
}

// BenchmarkConsumerAdded is a step with one more consumer beside 200,000.
func BenchmarkConsumerAdded(b *testing.B) {
	a := newBench(b)
	a.Apply(manyConsumers(200_000))
	b.ReportAllocs()
	n := 200_000
	for b.Loop() {
		n++
		a.Apply(model.Delta{Revision: int64(n), Put: []model.Object{numbered(n)}})
	}
}

func manyConsumers(n int) model.Delta {
	d := model.Delta{Revision: 1}
	for i := range n {
		d.Put = append(d.Put, numbered(i))
	}
	return d
}

func numbered(i int) model.Object {
	return model.Object{
		Key: model.Key{Kind: model.KindConsumer, ID: fmt.Sprintf("consumer_%d", i)}, Created: 1, Modified: 1,
		Raw: fmt.Appendf(nil, `{"username":"consumer_%d","plugins":{"key-auth":{"key":"key-%016x"}},"create_time":1700000000,"update_time":1700000000}`, i, i),
	}
}

// heap is what is in use.
func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
