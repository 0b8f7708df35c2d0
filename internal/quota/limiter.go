package quota

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"
	"unique"

	"weir/internal/expr"
	"weir/internal/limit"
	"weir/internal/plugin"
	"weir/internal/schema"
)

// A Limiter counts as one configuration says. What a request that is admitted
// needs lies together: of thousands of Limiters none is in a cache.
type Limiter struct {
	store  store
	rules  []rule
	single bool // no rules: the one always applies
	show   bool
	*otherwise

	one [1]rule // what rules is, if single
}

// otherwise is what requests need that are not admitted.
type otherwise struct {
	degrade   bool
	complaint *Complaint
	refused   *plugin.Reply
}

// What answers requests that cannot be counted.
var (
	failed  = plugin.JSON(500, map[string]string{"error_msg": "failed to limit count"})
	invalid = &plugin.Reply{Status: 500}
)

// A rule is one limit.
type rule struct {
	sum     uint64        // of prefix, where keys begin with that instead; else 0
	most    int64         // the limit, if it is the same for all requests; else 0
	length  time.Duration // of the window, if it is the same for all requests; else 0
	headers unique.Handle[Headers]
	key     Key

	prefix        string
	count, window *Positive
}

// New compiles c, the configuration of the named plugin. The Limiter counts in
// what env keeps and ends with it.
func New(env plugin.Env, name string, c *Config, headers Headers) (*Limiter, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	l := &Limiter{single: c.Rules == nil, show: c.ShowHeader, otherwise: &otherwise{
		degrade: c.AllowDegradation, complaint: NewComplaint(env, name), refused: Refusal(c.RejectedCode, c.RejectedMsg),
	}}
	if err := l.compileRules(c, Prefix(env), headers); err != nil {
		return nil, err
	}
	l.store = openStore(env, name, c)
	if c.Policy == "local" {
		for i := range l.rules {
			l.rules[i].shorten()
		}
	}
	return l, nil
}

func (l *Limiter) compileRules(c *Config, prefix string, headers Headers) error {
	if c.Group != "" {
		// A group that comes back with another limit begins anew.
		prefix = c.Group + ":" + c.Count.raw + "/" + c.TimeWindow.raw + ":"
	}
	if l.single {
		l.rules = l.one[:]
		given := Rule{Count: c.Count, TimeWindow: c.TimeWindow, Key: c.Key}
		return l.one[0].compile(given, c.KeyType, prefix, headers)
	}
	l.rules = make([]rule, len(c.Rules))
	for i, given := range c.Rules {
		number := strconv.Itoa(i + 1)
		word := number
		if given.HeaderPrefix != nil {
			word = *given.HeaderPrefix
		}
		if err := l.rules[i].compile(given, Combination, prefix+number+":", headers.with(word)); err != nil {
			return err
		}
	}
	return nil
}

func (r *rule) compile(given Rule, keyType, prefix string, headers Headers) (err error) {
	r.prefix, r.count, r.window = prefix, given.Count, given.TimeWindow
	r.headers = unique.Make(headers)
	if r.key, err = NewKey(given.Key, keyType); err != nil {
		return fmt.Errorf("key %q: %w", given.Key, err)
	}
	if n, fixed := r.count.Fixed(); fixed {
		r.most = n
	}
	if n, fixed := r.window.Fixed(); fixed {
		r.length = schema.Seconds(n)
	}
	return nil
}

// shorten has keys begin with a sum in place of the prefix, which nobody outside
// of the process sees: they then fit into the entry of a limit.Table.
func (r *rule) shorten() {
	sum := sha256.Sum256([]byte(r.prefix))
	r.sum = binary.BigEndian.Uint64(sum[:])
}

// A work is the memory of one request being counted.
type work struct {
	keys []byte
	due  []due
	text []byte
}

// due is a rule that applies, with its values for the request.
type due struct {
	notice
	window time.Duration

	from, value, to int // of keys: the key, its part that tells callers apart, its end
}

// A notice is how clients are told of a limit.
type notice struct {
	limit   int64
	prefix  string // of the key
	headers unique.Handle[Headers]
}

var works = sync.Pool{New: func() any { return new(work) }}

// Take counts a request that costs so much. A Reply refuses it.
func (l *Limiter) Take(c *plugin.Ctx, cost int64) *plugin.Reply {
	w := works.Get().(*work)
	defer works.Put(w)
	w.keys, w.due = w.keys[:0], w.due[:0]
	if err := l.collect(w, c); err != nil {
		l.complaint.Make("failed to get rate limit rules", err)
		return l.unless(invalid)
	}
	if len(w.due) == 0 {
		l.complaint.Make("failed to get rate limit rules", nil)
		return l.unless(invalid)
	}
	for i := range w.due {
		d := &w.due[i]
		key := w.keys[d.from : d.to : d.to+limit.Spare]
		got, err := l.store.take(key, cost, d.limit, d.window)
		if err != nil {
			l.complaint.Make("failed to limit count", err)
			if reply := l.unless(failed); reply != nil {
				return reply
			}
			continue
		}
		d.tell(w, c, w.keys[d.value:d.to], l.show, got)
		if !got.OK {
			return l.refused
		}
	}
	return nil
}

// Plain returns what Take at a cost of 1 comes to for the limit that most have.
func (l *Limiter) Plain() (p Plain, ok bool) {
	r := &l.rules[0]
	if !l.single || r.sum == 0 || r.most == 0 || r.length == 0 || r.key.text != nil || r.key.all {
		return p, false
	}
	return Plain{notice{r.most, r.prefix, r.headers}, l.store, l, r.key.name, r.sum, r.length, l.show}, true
}

// A Plain is what an admitted request needs of the limit that most have: a fixed
// number and window, counted here, for the value of a variable. It is small enough
// for a function to hold it, so that there is one place to be looked at.
type Plain struct {
	notice
	store   store // which never fails
	limiter *Limiter
	name    expr.Var
	sum     uint64
	window  time.Duration
	show    bool
}

// Take counts a request. A Reply refuses it.
func (p Plain) Take(c *plugin.Ctx) *plugin.Reply {
	w := works.Get().(*work)
	defer works.Put(w)
	keys := binary.BigEndian.AppendUint64(w.keys[:0], p.sum)
	value := len(keys)
	keys, ok := p.name.Append(keys, c)
	if !ok {
		keys = append(keys[:value], c.Client...)
	}
	to := len(keys)
	w.keys = append(keys, make([]byte, limit.Spare)...)
	got, _ := p.store.take(w.keys[:to], 1, p.limit, p.window)
	p.tell(w, c, w.keys[value:to], p.show, got)
	if !got.OK {
		return p.limiter.refused
	}
	return nil
}

// collect finds the rules that apply, before any of them counts.
func (l *Limiter) collect(w *work, c *plugin.Ctx) error {
	for i := range l.rules {
		r := &l.rules[i]
		d := due{notice: notice{prefix: r.prefix, headers: r.headers}, from: len(w.keys)}
		if r.sum != 0 {
			w.keys = binary.BigEndian.AppendUint64(w.keys, r.sum)
		} else {
			w.keys = append(w.keys, r.prefix...)
		}
		d.value = len(w.keys)
		if l.single {
			w.keys = r.key.Append(w.keys, c)
		} else {
			var n int
			if w.keys, n = r.key.Resolve(w.keys, c); n == 0 {
				w.keys = w.keys[:d.from]
				continue
			}
		}
		d.to = len(w.keys)
		w.keys = append(w.keys, make([]byte, limit.Spare)...)
		if err := d.measure(r, c); err != nil {
			return err
		}
		w.due = append(w.due, d)
	}
	return nil
}

// measure finds the limit and the window for the request.
func (d *due) measure(r *rule, c *plugin.Ctx) (err error) {
	d.limit, d.window = r.most, r.length
	if d.limit == 0 {
		if d.limit, err = r.count.Value(c); err != nil {
			return fmt.Errorf("count: %w", err)
		}
	}
	if d.window == 0 {
		n, err := r.window.Value(c)
		if err != nil {
			return fmt.Errorf("time_window: %w", err)
		}
		d.window = schema.Seconds(n)
	}
	return nil
}

// unless is the answer to a request that cannot be counted.
func (l *Limiter) unless(r *plugin.Reply) *plugin.Reply {
	if l.degrade {
		return nil
	}
	return r
}

// tell sets the variable and, if show says so, the headers about a limit.
func (n *notice) tell(w *work, c *plugin.Ctx, value []byte, show bool, got limit.Count) {
	c.SetVarLater("rate_limiting_info", plugin.Later{
		Texts:   [2]string{n.prefix, c.Keep(value)},
		Numbers: [3]int64{n.limit, got.Remaining, int64(got.Reset)}, Append: appendInfo,
	})
	if !show {
		return
	}
	h := n.headers.Value()
	c.SetReplyHeader(h.Limit, number(c, n.limit))
	c.SetReplyHeader(h.Remaining, number(c, got.Remaining))
	w.text = appendSeconds(w.text[:0], got.Reset)
	c.SetReplyHeader(h.Reset, c.Keep(w.text))
}

// number is n as text that lives as long as the request.
func number(c *plugin.Ctx, n int64) string {
	var b [20]byte
	return c.Keep(strconv.AppendInt(b[:0], n, 10))
}

// appendSeconds appends seconds with at most two digits after the point.
func appendSeconds(dst []byte, d time.Duration) []byte {
	hundredths := int64(max(d, 0) / (10 * time.Millisecond))
	dst = strconv.AppendInt(dst, hundredths/100, 10)
	switch rest := hundredths % 100; {
	case rest == 0:
	case rest%10 == 0:
		dst = append(dst, '.', byte('0'+rest/10))
	default:
		dst = append(dst, '.', byte('0'+rest/10), byte('0'+rest%10))
	}
	return dst
}

// appendInfo is $rate_limiting_info.
func appendInfo(dst []byte, l *plugin.Later) []byte {
	dst = append(dst, `{"rate_limiting_key":"`...)
	dst = appendQuoted(appendQuoted(dst, l.Texts[0]), l.Texts[1])
	most, remaining, reset := l.Numbers[0], l.Numbers[1], time.Duration(l.Numbers[2])
	dst = append(dst, `","rate_limiting_limit":`...)
	dst = strconv.AppendInt(dst, most, 10)
	dst = append(dst, `,"rate_limiting_remaining":`...)
	dst = strconv.AppendInt(dst, remaining, 10)
	dst = append(dst, `,"rate_limiting_reset":`...)
	dst = strconv.AppendInt(dst, int64(math.Floor(reset.Seconds())), 10)
	return append(dst, '}')
}

// appendQuoted appends what stands between the quotes of a JSON string.
func appendQuoted(dst []byte, s string) []byte {
	for i := range len(s) {
		switch b := s[i]; {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b < ' ':
			const digits = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', digits[b>>4], digits[b&15])
		default:
			dst = append(dst, b)
		}
	}
	return dst
}
