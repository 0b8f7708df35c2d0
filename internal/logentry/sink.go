package logentry

import (
	"context"
	"sync"
	"sync/atomic"

	"weir/internal/batch"
	"weir/internal/meter"
	"weir/internal/plugin"
	"weir/internal/schema"
)

// Batch are the attributes of loggers that collect entries. The attribute name
// is the plugin's own, since its default differs.
type Batch struct {
	BatchMaxSize    int `json:"batch_max_size"   schema:"default=1000,min=1" doc:"Entries of a batch; 1: each is sent at once."`
	InactiveTimeout int `json:"inactive_timeout" schema:"default=5,min=1"    doc:"Send a batch when so many seconds no entry has come."`
	BufferDuration  int `json:"buffer_duration"  schema:"default=60,min=1"   doc:"Send a batch when its oldest entry is so many seconds old."`
	MaxRetryCount   int `json:"max_retry_count"  schema:"default=0,min=0"    doc:"Further tries to send a batch; then it is lost."`
	RetryDelay      int `json:"retry_delay"      schema:"default=1,min=0"    doc:"Seconds before each of them."`
}

// Metadata is the metadata of loggers that collect entries.
type Metadata struct {
	Formats
	MaxPendingEntries int `json:"max_pending_entries" schema:"default=8192,min=1,description=maximum number of entries waiting to be processed; new entries are discarded while the backlog exceeds it" doc:"Entries of all configurations of the plugin that may wait to be sent; beyond that new ones are discarded and counted."`
}

// A Sink collects entries and sends them in batches.
type Sink struct {
	*batch.Processor[[]byte]
	name  string
	gauge *meter.Vec

	once    sync.Once
	waiting atomic.Pointer[meter.Series]
}

// NewSink makes a sink. name is the processor's in logs and metrics, limit the
// plugin's max_pending_entries, send delivers a batch (batch.Config).
func NewSink(env plugin.Env, pluginName, name string, b Batch, limit int, send func(ctx context.Context, entries [][]byte) (int, error)) *Sink {
	group := plugin.Lasting(env, "batch", func() *batch.Group { return batch.NewGroup(env.Log) })
	s := &Sink{name: name, gauge: env.Meter.Vec(meter.Desc{
		Name: "batch_process_entries", Help: "batch process remaining entries", Kind: meter.Gauge,
		Labels: []string{"name", "route_id", "server_addr"},
	})}
	s.Processor = batch.New(batch.Config[[]byte]{
		Name: name, Max: b.BatchMaxSize, Retries: b.MaxRetryCount,
		Inactive:   schema.Seconds(b.InactiveTimeout),
		Age:        schema.Seconds(b.BufferDuration),
		RetryDelay: schema.Seconds(b.RetryDelay),
		Send:       send, Collected: s.collected,
	}, group.Backlog(pluginName, limit))
	return s
}

// Log takes an entry of the request, which it keeps.
func (s *Sink) Log(c *plugin.Ctx, entry []byte) {
	if c.Route != nil {
		s.once.Do(func() {
			if w, ok := s.gauge.Use(s.name, c.Route.ID, c.Server.Addr().String()); ok {
				s.waiting.Store(w)
			}
		})
	}
	s.Add(entry)
}

func (s *Sink) collected(change int) {
	if w := s.waiting.Load(); w != nil {
		w.Add(int64(change))
	}
}

// Close sends what is left, in the background.
func (s *Sink) Close() {
	s.Processor.Close()
	if w := s.waiting.Swap(nil); w != nil {
		s.gauge.Drop(w)
	}
}
