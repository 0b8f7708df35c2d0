package resolve

import (
	"bufio"
	"bytes"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A file is a parsed file that is read again when it has changed.
type file[T any] struct {
	path  string
	parse func([]byte) T

	mu    sync.Mutex
	value T
	mtime time.Time
	size  int64
}

// get returns the content, that of an empty file if there is none.
func (f *file[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	var mtime time.Time
	size := int64(-1)
	if st, err := os.Stat(f.path); err == nil {
		mtime, size = st.ModTime(), st.Size()
	}
	if size == f.size && mtime.Equal(f.mtime) {
		return f.value
	}
	var text []byte
	if size >= 0 {
		var err error
		if text, err = os.ReadFile(f.path); err != nil {
			return f.value
		}
	}
	f.value, f.mtime, f.size = f.parse(text), mtime, size
	return f.value
}

func newFile[T any](path string, parse func([]byte) T) *file[T] {
	return &file[T]{path: path, parse: parse, value: parse(nil), size: -1}
}

// parseHosts reads hosts(5): an address and its names on a line.
func parseHosts(text []byte) map[string][]netip.Addr {
	hosts := map[string][]netip.Addr{}
	for fields := range lines(text, "#") {
		addr, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, name := range fields[1:] {
			name = canonical(name)
			hosts[name] = append(hosts[name], addr.Unmap())
		}
	}
	return hosts
}

// conf is what resolv.conf(5) says.
type conf struct {
	servers []string // host:port
	search  []string
	ndots   int
}

func parseConf(text []byte) conf {
	c := conf{ndots: 1}
	for fields := range lines(text, "#;") {
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			c.servers = append(c.servers, serverAddr(fields[1]))
		case "domain", "search":
			c.search = fields[1:]
		case "options":
			for _, o := range fields[1:] {
				if n, ok := strings.CutPrefix(o, "ndots:"); ok {
					if v, err := strconv.Atoi(n); err == nil {
						c.ndots = min(max(v, 0), 15)
					}
				}
			}
		}
	}
	if len(c.servers) == 0 {
		c.servers = []string{"127.0.0.1:53"}
	}
	return c
}

// lines yields the fields of every line that has some; comments begin with one
// of the characters in marks.
func lines(text []byte, marks string) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
			line := s.Text()
			if i := strings.IndexAny(line, marks); i >= 0 {
				line = line[:i]
			}
			if fields := strings.Fields(line); len(fields) > 0 && !yield(fields) {
				return
			}
		}
	}
}

// serverAddr adds the port 53 to a server that names none.
func serverAddr(s string) string {
	if _, err := netip.ParseAddrPort(s); err == nil {
		return s
	}
	host := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil {
		if strings.Contains(host, ":") {
			return "[" + host + "]:53"
		}
		return host + ":53"
	}
	if strings.Contains(s, ":") {
		return s
	}
	return s + ":53"
}

// canonical is a name as names are compared: in lower case, without the dot at
// the end.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
