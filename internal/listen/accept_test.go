package listen

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A scripted listener gives connections (nil) and errors in turn.
type scripted struct {
	net.Listener
	script []error
	at     []time.Time // of every Accept
}

func (s *scripted) Addr() net.Addr { return &net.TCPAddr{Port: 9080} }

func (s *scripted) Accept() (net.Conn, error) {
	s.at = append(s.at, time.Now())
	err := s.script[0]
	s.script = s.script[1:]
	if err != nil {
		return nil, err
	}
	here, there := net.Pipe()
	here.Close()
	return there, nil
}

func TestAccept(t *testing.T) {
	full := &net.OpError{Op: "accept", Err: syscall.EMFILE}
	broken := errors.New("broken")
	for _, tc := range []struct {
		name   string
		script []error
		pauses []time.Duration // between the attempts
		served int
		err    error
	}{
		{"closed", []error{nil, nil, net.ErrClosed}, []time.Duration{0, 0}, 2, nil},
		{"for good", []error{nil, broken}, []time.Duration{0}, 1, broken},
		{
			"no descriptors", []error{full, full, nil, full, nil, net.ErrClosed},
			[]time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 0, 5 * time.Millisecond, 0}, 2, nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, served, said := &scripted{script: tc.script}, 0, &strings.Builder{}
				err := Accept(l, slog.New(slog.NewTextHandler(said, nil)), func() bool { return false }, func(nc net.Conn) {
					served++
					nc.Close()
				})
				if !errors.Is(err, tc.err) || served != tc.served {
					t.Errorf("%d served, %v", served, err)
				}
				for i, want := range tc.pauses {
					if got := l.at[i+1].Sub(l.at[i]); got != want {
						t.Errorf("pause %d is %v, want %v", i, got, want)
					}
				}
				if full := strings.Count(said.String(), "too many open files"); full != strings.Count(tc.name, "descriptors")*3 {
					t.Errorf("the log says %s", said)
				}
			})
		})
	}
}

func TestAcceptPauseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &scripted{}
		for range 20 {
			l.script = append(l.script, &net.OpError{Op: "accept", Err: syscall.ENFILE})
		}
		l.script = append(l.script, net.ErrClosed)
		if err := Accept(l, slog.New(slog.DiscardHandler), func() bool { return false }, nil); err != nil {
			t.Error(err)
		}
		if last := l.at[20].Sub(l.at[19]); last != longestPause {
			t.Errorf("the last pause is %v", last)
		}
	})
}

// A listener that is stopped ends quietly, whatever it says.
func TestAcceptStopping(t *testing.T) {
	l := &scripted{script: []error{errors.New("use of a listener that is gone")}}
	if err := Accept(l, slog.New(slog.DiscardHandler), func() bool { return true }, nil); err != nil {
		t.Error(err)
	}
}
