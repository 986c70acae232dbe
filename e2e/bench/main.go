// Command bench measures Vidra on a control plane of its own, which it builds
// when it is missing:
//
//	go run ./e2e/bench heal                      how fast edits are reverted
//	go run ./e2e/bench heal -objects 500 -o json the same, among 500 objects
//	go run ./e2e/bench apply                     how fast VidraResources become ready
//	go run ./e2e/bench restart                   what a restart of the operator costs
//	go run ./e2e/bench memory                    what it takes to watch objects
//
// Each benchmark is a sub-command with flags of its own; -h lists them. It
// measures beside a floor, in the same run, because absolute times say more of
// the machine than of Vidra. The result goes to standard output and the progress
// to standard error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// benchmarks are the sub-commands that users call.
var benchmarks = map[string]func(context.Context, []string) error{
	"apply":   runApply,
	"heal":    runHeal,
	"memory":  runMemory,
	"restart": runRestart,
}

// children are the sub-commands that a benchmark starts this process with.
var children = map[string]func(ctx context.Context, args []string, in io.Reader, out io.Writer) error{
	applierCommand:  runApplier,
	floorCommand:    runFloor,
	listerCommand:   runLister,
	observerCommand: runObserver,
}

func main() {
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs the benchmark that the first argument names.
func run(ctx context.Context, args []string) error {
	names := strings.Join(slices.Sorted(maps.Keys(benchmarks)), ", ")
	if len(args) == 0 {
		return fmt.Errorf("which benchmark? There is: %s", names)
	}
	name, args := args[0], args[1:]
	if child, known := children[name]; known {
		return child(ctx, args, os.Stdin, os.Stdout)
	}
	if benchmark, known := benchmarks[name]; known {
		return benchmark(ctx, args)
	}
	return fmt.Errorf("there is no benchmark %q, there is: %s", name, names)
}

// parseFlags parses args, which must hold flags only.
func parseFlags(fs *flag.FlagSet, out io.Writer, args []string) error {
	fs.SetOutput(out)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: %s takes flags only, see -h", fs.Arg(0), fs.Name())
	}
	return nil
}

// report is the result of a benchmark.
type report interface {
	table(out io.Writer) error
	json(out io.Writer) error
	// verdict is an error if the figures are not what they are said to be.
	verdict() error
}

// checkOutput says whether the flag -o has a value that show knows.
func checkOutput(output string) error {
	if output != "table" && output != "json" {
		return fmt.Errorf("-o is %q: it can be table or json", output)
	}
	return nil
}

// show prints a report as the flag -o says, and returns its verdict.
func show(out io.Writer, r report, output string) error {
	write := r.table
	if output == "json" {
		write = r.json
	}
	if err := write(out); err != nil {
		return err
	}
	return r.verdict()
}

// printJSON prints a value for programs.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
