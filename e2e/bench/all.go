package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The sizes of all.
const (
	smallSize, normalSize, fullSize = "small", "normal", "full"
)

// suiteRun is one benchmark of all, under a title, with its flags for each size. A benchmark without
// flags for a size is not part of it.
type suiteRun struct {
	title, benchmark string
	flags            map[string]string
}

// suite is what all runs, in this order.
var suite = []suiteRun{
	{"heal", "heal", map[string]string{
		smallSize: "-rounds 1 -pause 10ms", normalSize: "-rounds 8 -pause 100ms", fullSize: "-rounds 50"}},
	{"heal, 50 objects", "heal", map[string]string{fullSize: "-objects 50"}},
	{"heal, 500 objects", "heal", map[string]string{fullSize: "-objects 500"}},
	{"heal, 10,000 others", "heal", map[string]string{fullSize: "-others 10000"}},
	{"heal, 100,000 others", "heal", map[string]string{fullSize: "-others 100000 -peer=false"}},
	{"storm", "storm", map[string]string{
		smallSize: "-rounds 1 -pause 10ms -updates 50 -peer=false", normalSize: "-rounds 5 -pause 100ms -peer=false", fullSize: "-rounds 20"}},
	{"storm, 500 objects, 10,000 others", "storm", map[string]string{fullSize: "-objects 500 -others 10000 -peer=false"}},
	{"heal while others wait", "waits", map[string]string{
		smallSize: "-rounds 2 -objects 20", normalSize: "-rounds 10 -objects 1000", fullSize: ""}},
	{"apply, 1,000 x 4", "apply", map[string]string{
		smallSize: "-resources 3 -rounds 1", normalSize: "-rounds 1", fullSize: "-rounds 3"}},
	{"apply, 100 x 100", "apply", map[string]string{
		normalSize: "-resources 30 -per-resource 100 -rounds 1", fullSize: "-resources 100 -per-resource 100 -rounds 2"}},
	{"apply, 10 x 1,000", "apply", map[string]string{
		normalSize: "-resources 3 -per-resource 1000 -rounds 1 -peer=false", fullSize: "-resources 10 -per-resource 1000 -rounds 2"}},
	{"change", "change", map[string]string{
		smallSize: "-resources 3 -rounds 1", normalSize: "-resources 200 -rounds 2", fullSize: "-rounds 3"}},
	{"prune", "prune", map[string]string{
		smallSize: "-resources 3", normalSize: "-resources 250", fullSize: "-rounds 3"}},
	{"steady", "steady", map[string]string{
		smallSize:  "-resources 2 -per-resource 3 -rounds 1 -for 1s -backstop 2s",
		normalSize: "-rounds 1 -for 10s -backstop 10s", fullSize: "-resources 100 -per-resource 100 -for 1m -backstop 1m"}},
	{"steady, 100,000 objects", "steady", map[string]string{
		fullSize: "-resources 100 -per-resource 1000 -for 1m -backstop 5m -peer=false -timeout 30m"}},
	{"restart", "restart", map[string]string{
		smallSize: "-resources 2 -per-resource 3 -damaged 2 -rounds 1", normalSize: "-resources 50 -damaged 50 -rounds 1", fullSize: ""}},
	{"restart, 100,000 objects", "restart", map[string]string{
		fullSize: "-resources 100 -per-resource 1000 -damaged 1000 -rounds 1 -timeout 30m"}},
	{"kinds", "kinds", map[string]string{
		smallSize: "-kinds 3 -rounds 1", normalSize: "-kinds 60", fullSize: ""}},
	{"remotes", "remotes", map[string]string{
		smallSize: "-clusters 3 -per-resource 2 -rounds 1 -delay 100ms", normalSize: "-clusters 5", fullSize: ""}},
	{"shards", "shards", map[string]string{
		smallSize: "-resources 4 -per-resource 2 -shards 2", normalSize: "-resources 20", fullSize: ""}},
	{"webhook", "webhook", map[string]string{
		smallSize: "-rounds 1 -artifacts 3 -pause 10ms", normalSize: "-rounds 10", fullSize: ""}},
	{"revision", "revision", map[string]string{
		smallSize: "-rounds 1 -objects 3 -pause 10ms", normalSize: "-rounds 10", fullSize: ""}},
	{"memory", "memory", map[string]string{
		smallSize: "-objects 50 -per-resource 10", normalSize: "-objects 5000", fullSize: "-objects 100000 -timeout 30m"}},
}

// runAll runs all benchmarks, one after the other, each on a control plane of its own.
func runAll(ctx context.Context, args []string) error {
	var o commonOptions
	fs := flag.NewFlagSet("all", flag.ContinueOnError)
	o.flags(fs)
	size := fs.String("size", normalSize, "How large: small, normal (some minutes) or full (some hours).")
	only := fs.String("only", "", "The names of the benchmarks to run, with commas between them; all if it is empty.")
	if err := parseFlags(fs, os.Stderr, args); err != nil {
		return err
	}
	runs, err := selectRuns(*size, *only)
	if err := errors.Join(err, o.check()); err != nil {
		return err
	}
	var reports []*report
	var errs []error
	began := time.Now()
	for i, run := range runs {
		_, _ = fmt.Fprintf(os.Stderr, "--- %s (%d of %d, after %s)\n", run.title, i+1, len(runs), time.Since(began).Round(time.Second))
		r, err := run.measure(ctx, o, *size)
		if err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil {
				break
			}
			continue // the others say as much without it
		}
		reports = append(reports, r)
		if o.output == "table" {
			errs = append(errs, r.table(os.Stdout))
			_, err = fmt.Println() // separates the reports
		}
		errs = append(errs, err, o.draw(r), r.verdict())
	}
	if o.output == "json" {
		errs = append(errs, printJSON(os.Stdout, reports))
	}
	return errors.Join(append(errs, o.save(reports))...)
}

// selectRuns returns the benchmarks of a size, or those of them that are named.
func selectRuns(size, only string) ([]suiteRun, error) {
	if !slices.Contains([]string{smallSize, normalSize, fullSize}, size) {
		return nil, fmt.Errorf("-size is %q: it can be %s, %s or %s", size, smallSize, normalSize, fullSize)
	}
	named := strings.FieldsFunc(only, func(r rune) bool { return r == ',' })
	for _, name := range named {
		if benchmarks[name] == nil {
			return nil, fmt.Errorf("-only has %q, which is no benchmark", name)
		}
	}
	var runs []suiteRun
	for _, run := range suite {
		_, is := run.flags[size]
		if is && (len(named) == 0 || slices.Contains(named, run.benchmark)) {
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// measure runs one benchmark of the suite. The flags that all have are those of the suite, but a benchmark
// may be without the peer.
func (s suiteRun) measure(ctx context.Context, o commonOptions, size string) (*report, error) {
	b, own, err := parseBenchmark(s.benchmark, strings.Fields(s.flags[size]))
	if err != nil {
		return nil, err
	}
	own.operator, own.peer = o.operator, own.peer && o.peer
	r, err := measure(ctx, s.benchmark, b, own)
	if err != nil {
		return nil, err
	}
	r.Benchmark = s.title
	return r, nil
}

// runPlots draws the reports that -json has written.
func runPlots(_ context.Context, args []string) error {
	fs := flag.NewFlagSet("plots", flag.ContinueOnError)
	from := fs.String("from", "", "The file that -json has written.")
	dir := fs.String("plots", ".", "The folder that the pictures are drawn into.")
	if err := parseFlags(fs, os.Stderr, args); err != nil {
		return err
	}
	text, err := os.ReadFile(*from)
	if err != nil {
		return err
	}
	var reports []*report
	if err := json.Unmarshal(text, &reports); err != nil {
		one := &report{}
		if json.Unmarshal(text, one) != nil {
			return fmt.Errorf("%s has no reports: %w", *from, err)
		}
		reports = []*report{one}
	}
	var errs []error
	for _, r := range reports {
		errs = append(errs, r.plots(*dir))
	}
	return errors.Join(errs...)
}
