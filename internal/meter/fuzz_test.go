package meter

import (
	"bytes"
	"testing"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// FuzzExpose: whatever a client makes the value of a label, Prometheus' own parser
// reads it back, and no series more.
func FuzzExpose(f *testing.F) {
	f.Add("a", "b\"\n\\", int64(1))
	f.Add("", "} 1\nforged{", int64(-1))
	f.Add("\xff", "é\u2028\x00", int64(1)<<62)
	f.Fuzz(func(t *testing.T, first, second string, value int64) {
		if !utf8.ValidString(first) || !utf8.ValidString(second) {
			return // the format knows UTF-8 only; the values come from checked text
		}
		r := New(0)
		for _, kind := range []Kind{Gauge, Histogram} {
			v := r.Vec(Desc{Name: "told_" + kind.String(), Help: second, Kind: kind, Labels: []string{"a", "b"}, Buckets: []float64{1, 5}})
			s, ok := v.Use(first, second)
			if !ok {
				t.Fatal("no series")
			}
			if kind == Gauge {
				s.Set(value)
			} else {
				s.Observe(value)
			}
		}
		var b bytes.Buffer
		if err := r.Expose(&b, "x_"); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(&b)
		if err != nil || len(families) != 2 {
			t.Fatalf("%v: %s", err, text)
		}
		for _, family := range families {
			if len(family.Metric) != 1 || labelOf(family.Metric[0], "a") != first || labelOf(family.Metric[0], "b") != second {
				t.Errorf("%q, %q: %v", first, second, family)
			}
		}
		if got := families["x_told_gauge"].Metric[0].GetGauge().GetValue(); got != float64(value) {
			t.Errorf("%d: %v", value, got)
		}
		if n := families["x_told_histogram"].Metric[0].GetHistogram().GetSampleCount(); n != 1 {
			t.Errorf("%d observations", n)
		}
	})
}

// labelOf is the value of a label; one that is empty is not there.
func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.Label {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
