package contentcaching

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/schema"
	"weir/internal/wire"
)

// A head is an upstream's, as it came, with what matters to caches.
type head struct {
	fields [][2]string // that are kept

	length   int64 // -1: it does not say
	age      int64
	etag     string
	modified time.Time
	vary     []string

	cacheControl, accelExpires, expires string
	setsCookie, variesOnAll, typed      bool
}

// received reads a head as the upstream sent it, whatever policies have made of it
// since. What belongs to the connection, to the message's end or to its time of
// sending is not kept.
func received(h *wire.Header) head {
	out := head{length: -1}
	all := h.Fields()
	for _, f := range all[:len(all)-len(h.Added())] {
		if f.Known.Name() == wire.KnownContentLength {
			if n, err := strconv.ParseInt(f.Value, 10, 64); err == nil {
				out.length = n
			}
		}
		if f.Known&wire.Nominated != 0 || !kept(f.Known.Name()) {
			continue
		}
		if out.note(f.Name, f.Value) {
			out.fields = append(out.fields, [2]string{strings.Clone(f.Name), strings.Clone(f.Value)})
		}
	}
	slices.Sort(out.vary)
	out.vary = slices.Compact(out.vary)
	return out
}

func kept(k wire.Known) bool {
	switch k {
	case wire.KnownConnection, wire.KnownKeepAlive, wire.KnownProxyAuthenticate, wire.KnownProxyAuthorization,
		wire.KnownProxyConnection, wire.KnownTE, wire.KnownTrailer, wire.KnownTransferEncoding, wire.KnownUpgrade,
		wire.KnownContentLength, wire.KnownDate, wire.KnownServer:
		return false
	}
	return true
}

// note takes in a field and says whether it is kept.
func (d *head) note(name, value string) bool {
	switch strings.ToLower(name) {
	case "cache-control":
		d.cacheControl += "," + strings.ToLower(value)
	case "expires":
		d.expires = value
	case "x-accel-expires":
		d.accelExpires = value
	case "set-cookie":
		d.setsCookie = true
	case "content-type":
		d.typed = true
	case "etag":
		d.etag = strings.Clone(value)
	case "last-modified":
		d.modified, _ = http.ParseTime(value)
	case "age":
		d.age, _ = strconv.ParseInt(strings.TrimSpace(value), 10, 32)
		d.age = max(d.age, 0)
		return false // it is told anew
	case "vary":
		for field := range strings.SplitSeq(value, ",") {
			if field = strings.ToLower(strings.TrimSpace(field)); field == "*" {
				d.variesOnAll = true
			} else if field != "" {
				d.vary = append(d.vary, field)
			}
		}
	}
	return true
}

// A life is how long an answer is good.
type life struct {
	fresh                  time.Time // zero: the answer does not say
	whileUpdating, onError time.Duration
}

// freshness says how long an answer may be given again, by nginx's rules
// (ngx_http_upstream.c); ok is false if it may not.
func freshness(d *head, status int, now time.Time) (l life, ok bool) {
	if status < 200 || status == 206 || status == 304 || d.setsCookie || d.variesOnAll {
		return l, false
	}
	if d.accelExpires != "" {
		return accelerated(d.accelExpires, now)
	}
	if d.cacheControl != "" {
		if l, ok = controlled(d.cacheControl, now); !ok || !l.fresh.IsZero() {
			return l, ok
		}
	}
	if d.expires != "" {
		at, err := http.ParseTime(d.expires)
		if err != nil || at.Before(now) {
			return l, false
		}
		l.fresh = at
	}
	return l, true
}

// accelerated reads X-Accel-Expires: seconds, or "@" and a time. What is neither is
// as if it were not there.
func accelerated(value string, now time.Time) (l life, ok bool) {
	text, absolute := strings.CutPrefix(value, "@")
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return l, true
	case n <= 0:
		return l, false
	case absolute:
		l.fresh = time.Unix(min(n, 1<<40), 0)
		return l, l.fresh.After(now)
	}
	l.fresh = now.Add(seconds(n))
	return l, true
}

// controlled reads Cache-Control, in lower case (RFC 9111 §5.2.2, RFC 5861).
func controlled(value string, now time.Time) (l life, ok bool) {
	var age, shared int64 = -1, -1
	for directive := range strings.SplitSeq(value, ",") {
		name, argument, _ := strings.Cut(strings.TrimSpace(directive), "=")
		argument = strings.Trim(strings.TrimSpace(argument), `"`)
		switch strings.TrimSpace(name) {
		case "no-cache", "no-store", "private":
			return l, false
		case "s-maxage":
			if shared = whole(argument); shared < 0 {
				return l, false
			}
		case "max-age":
			if age = whole(argument); age < 0 {
				return l, false
			}
		case "stale-while-revalidate":
			l.whileUpdating = seconds(whole(argument))
		case "stale-if-error":
			l.onError = seconds(whole(argument))
		}
	}
	if shared >= 0 {
		age = shared
	}
	switch {
	case age == 0:
		return l, false
	case age > 0:
		l.fresh = now.Add(seconds(age))
	}
	return l, true
}

// whole is a number of seconds; -1: it is none.
func whole(text string) int64 {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return -1
	}
	return int64(n)
}

// seconds is n seconds, bounded by what caches reckon with (RFC 9111 §1.2.2).
func seconds(n int64) time.Duration {
	return schema.Seconds(min(max(n, 0), 1<<31))
}
