// Weir is an API gateway whose configuration can change at any rate without
// its traffic noticing.
//
// Exit codes: 0 all is well, 1 it failed, 2 it was called in a way that makes
// no sense.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"weir/internal/app"
	"weir/internal/bench"
)

// version is set by the linker: -X main.version=1.2.3.
var version = "dev"

// The exit codes.
const (
	exitOK = iota
	exitFailure
	exitUsage
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	cmd := command()
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(context.Background())
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailure
	case misused(err):
		fmt.Fprintf(os.Stderr, "weir: %v\nRun 'weir --help' for what there is.\n", err)
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "weir: %v\n", err)
	if _, ok := errors.AsType[troubleError](err); ok {
		return exitUsage
	}
	return exitFailure
}

// misused says that an error is a mistake in flags or arguments.
func misused(err error) bool {
	_, ofCommand := errors.AsType[usageError](err)
	_, ofBench := errors.AsType[bench.Misuse](err)
	_, ofExplain := errors.AsType[app.BadQuestion](err)
	return ofCommand || ofBench || ofExplain
}

// A troubleError keeps a command whose code 1 is an answer from giving one.
type troubleError struct{ error }

func (t troubleError) Unwrap() error { return t.error }

// A usageError is a mistake in flags or arguments.
type usageError struct{ error }

// errReported: the failure was printed already.
var errReported = errors.New("failed")
