package accesslog

import (
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func receive(t *testing.T, network, addr string) (net.PacketConn, func() string) {
	t.Helper()
	pc, err := net.ListenPacket(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	return pc, func() string {
		buf := make([]byte, 64<<10)
		if err := pc.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, _, err := pc.ReadFrom(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
}

func TestSyslog(t *testing.T) {
	pc, next := receive(t, "udp", "127.0.0.1:0")
	l, err := Open(Config{Path: "syslog:server=" + pc.LocalAddr().String(), Format: "one $status", FlushEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.put([]byte("a 200\nb 404\n"))
	for _, want := range []string{"a 200", "b 404"} {
		if got := next(); !regexp.MustCompile(`^<190>\w{3} [ \d]\d \d\d:\d\d:\d\d \S+ nginx: ` + want + `$`).MatchString(got) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := l.Reopen(); err != nil {
		t.Error(err)
	}
	l.put([]byte("c\n"))
	if got := next(); !strings.HasSuffix(got, ": c") {
		t.Error(got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestSyslogParameters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	_, next := receive(t, "unixgram", path)
	e, err := OpenErrorLog("syslog:server=unix:"+path+",nohostname,tag=weir,facility=user,severity=error", LevelNotice)
	if err != nil {
		t.Fatal(err)
	}
	e.Logger().Error("it happened", "why", "so")
	if got := next(); !regexp.MustCompile(`^<11>\w{3} [ \d]\d \d\d:\d\d:\d\d weir: .*\[error\] it happened why=so$`).MatchString(got) {
		t.Errorf("%q", got)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{
		"syslog:":                            "unknown parameter",
		"syslog:tag=x":                       "no server",
		"syslog:server=127.0.0.1,facility=x": `unknown facility "x"`,
		"syslog:server=127.0.0.1,severity=x": `unknown severity "x"`,
		"syslog:server=unix:/nowhere/log":    "no such file",
	} {
		if _, err := OpenErrorLog(path, LevelNotice); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
