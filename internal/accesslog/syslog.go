package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// A remote sends lines to a syslog server, each in a message of its own, as
// nginx does (RFC 3164; UDP or a unix socket).
type remote struct {
	net.Conn
	head string // "<PRI>"
	host string // with a space behind; empty: none
	tag  string
	now  func() time.Time
	buf  []byte
}

// maxMessage is how much of a line fits into one message.
const maxMessage = 60 << 10

var facilities = []string{
	"kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv", "ftp",
	"ntp", "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
}

var severities = []string{"emerg", "alert", "crit", "error", "warn", "notice", "info", "debug"}

// dialSyslog reads the parameters of nginx's "syslog:server=ADDRESS,facility=F,...".
func dialSyslog(parameters string) (*remote, error) {
	r := &remote{tag: "nginx", now: time.Now}
	facility, severity, server := "local7", "info", ""
	if host, err := os.Hostname(); err == nil {
		r.host = host + " "
	}
	for p := range strings.SplitSeq(parameters, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		switch name {
		case "server":
			server = value
		case "facility":
			facility = value
		case "severity":
			severity = value
		case "tag":
			r.tag = value
		case "nohostname":
			r.host = ""
		default:
			return nil, fmt.Errorf("syslog: unknown parameter %q", name)
		}
	}
	f, s := index(facilities, facility), index(severities, severity)
	switch {
	case server == "":
		return nil, errors.New("syslog: no server is given")
	case f < 0:
		return nil, fmt.Errorf("syslog: unknown facility %q", facility)
	case s < 0:
		return nil, fmt.Errorf("syslog: unknown severity %q", severity)
	}
	r.head = fmt.Sprintf("<%d>", f*8+s)
	network, addr := "udp", server
	if path, unix := strings.CutPrefix(server, "unix:"); unix {
		network, addr = "unixgram", path
	} else if _, _, err := net.SplitHostPort(server); err != nil {
		addr = net.JoinHostPort(strings.Trim(server, "[]"), "514")
	}
	var err error
	r.Conn, err = net.Dial(network, addr)
	return r, err
}

func index(names []string, name string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return -1
}

// Write sends the lines of p. A message that the server does not take is lost, as
// any may be on its way.
func (r *remote) Write(p []byte) (n int, err error) {
	const stamp = "Jan _2 15:04:05"
	for line := range bytes.SplitSeq(bytes.TrimSuffix(p, []byte("\n")), []byte("\n")) {
		r.buf = append(r.buf[:0], r.head...)
		r.buf = r.now().AppendFormat(r.buf, stamp)
		r.buf = append(append(append(append(r.buf, ' '), r.host...), r.tag...), ": "...)
		r.buf = append(r.buf, line[:min(len(line), maxMessage)]...)
		if _, e := r.Conn.Write(r.buf); e != nil {
			err = e
		}
	}
	return len(p), err
}
