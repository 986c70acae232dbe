// Command bench measures Vidra on a control plane of its own, which it builds
// when it is missing:
//
//	go run ./e2e/bench heal                      how fast edits are reverted
//	go run ./e2e/bench heal -objects 500 -o json the same, among 500 objects
//	go run ./e2e/bench storm                     the same, while the status of other objects is updated
//	go run ./e2e/bench waits                     the same, while other objects wait for a webhook, are applied or pruned
//	go run ./e2e/bench apply                     how fast VidraResources become ready
//	go run ./e2e/bench change                    how fast changed manifests are applied
//	go run ./e2e/bench prune                     how fast VidraResources are deleted
//	go run ./e2e/bench steady                    what the operator takes while nothing changes
//	go run ./e2e/bench restart                   what a restart of the operator costs
//	go run ./e2e/bench kinds                     objects of many kinds
//	go run ./e2e/bench remotes                   many clusters, of which one is slow and one dead
//	go run ./e2e/bench memory                    what it takes to watch objects
//	go run ./e2e/bench shards                    several operators that share the objects
//	go run ./e2e/bench webhook                   from a webhook of Infrahub to the live object
//	go run ./e2e/bench revision                  from a new revision of a source to the live object
//	go run ./e2e/bench all                       all of them
//	go run ./e2e/bench plots -from figures.json  pictures of what -json has written
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
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// benchmark is what one sub-command measures.
type benchmark interface {
	// flags adds the flags, whose values are the fields of the benchmark.
	flags(fs *flag.FlagSet)
	// check returns an error if a value cannot be.
	check() error
	// setup is what the benchmark needs of a lab.
	setup() setup
	// measure measures in a lab that has been used for nothing that matters.
	measure(ctx context.Context, l *lab) (*report, error)
}

// benchmarks are the sub-commands that measure, with their flags at the defaults.
var benchmarks = map[string]func() benchmark{
	"apply":    func() benchmark { return &applyOptions{} },
	"change":   func() benchmark { return &changeOptions{} },
	"heal":     func() benchmark { return &healOptions{} },
	"kinds":    func() benchmark { return &kindsOptions{} },
	"memory":   func() benchmark { return &memoryOptions{} },
	"prune":    func() benchmark { return &pruneOptions{} },
	"remotes":  func() benchmark { return &remotesOptions{} },
	"restart":  func() benchmark { return &restartOptions{} },
	"revision": func() benchmark { return &revisionOptions{} },
	"shards":   func() benchmark { return &shardsOptions{} },
	"steady":   func() benchmark { return &steadyOptions{} },
	"storm":    func() benchmark { return &healOptions{updates: stormUpdates} },
	"waits":    func() benchmark { return &waitsOptions{} },
	"webhook":  func() benchmark { return &webhookOptions{} },
}

// others are the sub-commands that measure with several benchmarks, or none.
var others = map[string]func(context.Context, []string) error{"all": runAll, "plots": runPlots}

// children are the sub-commands that a benchmark starts this process with.
var children = map[string]func(ctx context.Context, args []string, in io.Reader, out io.Writer) error{
	applierCommand:  runApplier,
	floorCommand:    runFloor,
	fluxCommand:     runFlux,
	fluxLoopCommand: runFluxLoop,
	listerCommand:   runLister,
	observerCommand: runObserver,
	stormCommand:    runStorm,
}

func main() {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // of client-go: what matters is in its errors
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
	all := slices.AppendSeq(slices.Collect(maps.Keys(others)), maps.Keys(benchmarks))
	slices.Sort(all)
	names := strings.Join(all, ", ")
	if len(args) == 0 {
		return fmt.Errorf("which benchmark? There is: %s", names)
	}
	name, args := args[0], args[1:]
	if slices.Contains([]string{"-h", "-help", "--help", "help"}, name) {
		_, err := fmt.Println("Usage: go run ./e2e/bench BENCHMARK [FLAG]...; -h after its name lists the flags. There is:", names)
		return err
	}
	if child, known := children[name]; known {
		return child(ctx, args, os.Stdin, os.Stdout)
	}
	if other, known := others[name]; known {
		return other(ctx, args)
	}
	if known := benchmarks[name]; known != nil {
		return runOne(ctx, name, args)
	}
	return fmt.Errorf("there is no benchmark %q, there is: %s", name, names)
}

// runOne runs one benchmark and shows its report.
func runOne(ctx context.Context, name string, args []string) error {
	b, o, err := parseBenchmark(name, args)
	if err != nil {
		return err
	}
	r, err := measure(ctx, name, b, o)
	if err != nil {
		return err
	}
	return o.show(os.Stdout, r)
}

// parseBenchmark returns a benchmark with the values of its flags, and those that all have.
func parseBenchmark(name string, args []string) (benchmark, commonOptions, error) {
	b, o := benchmarks[name](), commonOptions{}
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	b.flags(fs)
	o.flags(fs)
	if err := parseFlags(fs, os.Stderr, args); err != nil {
		return nil, o, err
	}
	return b, o, errors.Join(b.check(), o.check())
}

// measure runs a benchmark in a lab of its own.
func measure(ctx context.Context, name string, b benchmark, o commonOptions) (*report, error) {
	l, err := newLab(ctx, o, b.setup())
	if err != nil {
		return nil, err
	}
	r, err := b.measure(ctx, l)
	if err := errors.Join(err, l.close()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r.Benchmark = name
	return r, nil
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

// printJSON prints a value for programs.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
