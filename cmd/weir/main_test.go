package main

import (
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"weir": func() { os.Exit(run(os.Args[1:])) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"PROXY", "ADMIN", "ETCD", "CONTROL"} {
				port, err := freePort()
				if err != nil {
					return err
				}
				env.Setenv(name, port)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"await": await, "http": request, "awaitget": awaitGet, "etcddump": etcdDump},
	})
}

// freePort is a port of 127.0.0.1 that nothing listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}
