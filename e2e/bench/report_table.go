package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// table prints the report for persons.
func (r *report) table(out io.Writer) error {
	t := &tableWriter{out: out}
	t.printf("%s: %s\n\n", r.Benchmark, r.Settings)
	r.printLines(t)
	r.printCosts(t)
	if len(r.Goals) > 0 {
		t.printf("\n")
	}
	for _, g := range r.Goals {
		verdict := "missed"
		if g.reached() {
			verdict = "reached"
		}
		t.printf("Goal: %s at most %s: %s %s.\n", g.What, number(g.Limit), number(g.Value), verdict)
	}
	if len(r.Notes)+len(r.Failures) > 0 {
		t.printf("\n")
	}
	for _, note := range r.Notes {
		t.printf("%s\n", note)
	}
	for _, failure := range r.Failures {
		t.printf("FAILED: %s\n", failure)
	}
	t.printf("\n%s\n", r.Environment)
	return t.err
}

// printLines prints what was measured: a row for each side.
func (r *report) printLines(t *tableWriter) {
	names, sides := len("WHAT"), len("SIDE")
	for _, l := range r.Lines {
		names = max(names, len(l.Name))
		for _, f := range l.Sides {
			sides = max(sides, len(f.Side))
		}
	}
	t.printf("%-*s  %-*s %5s %6s %9s %9s %9s %9s %9s %-6s %6s\n", names, "WHAT", sides, "SIDE",
		"N", "MISSED", "MIN", "MEDIAN", "P90", "P99", "MAX", "UNIT", "RATIO")
	for _, l := range r.Lines {
		name := l.Name
		for _, f := range l.Sides {
			t.printf("%-*s  %-*s %s\n", names, name, sides, f.Side, strings.TrimRight(f.row(l.Unit), " "))
			name = ""
		}
	}
}

// row has the columns from N on. One value has no distribution, and none has no figures.
func (f *figures) row(unit string) string {
	columns := make([]string, 5)
	if f.N > 0 {
		columns[1] = number(f.Median)
	}
	if f.N > 1 {
		columns = []string{number(f.Min), number(f.Median), number(f.P90), number(f.P99), number(f.Max)}
	}
	row := fmt.Sprintf("%5d %6d", f.N, f.Missed)
	for _, column := range columns {
		row += fmt.Sprintf(" %9s", column)
	}
	row += fmt.Sprintf(" %-6s", unit)
	if f.Ratio > 0 {
		row += fmt.Sprintf(" %6.2f", f.Ratio)
	}
	return row
}

// printCosts prints what the sides took.
func (r *report) printCosts(t *tableWriter) {
	if len(r.Costs) == 0 {
		return
	}
	t.printf("\n%-10s %9s %9s %9s  %s\n", "SIDE", "CPU", "RSS", "PEAK RSS", "REQUESTS")
	for _, c := range r.Costs {
		t.printf("%-10s %7.2f s %5.0f MiB %5.0f MiB  %s\n", c.Side, c.Usage.CPU, mib(c.Usage.Resident), mib(c.Usage.Peak), c.sent())
		if len(c.CPU) > 0 {
			t.printf("%-10s CPU time of all processes per %s: %s\n", "", c.Per, c.CPU.each(c.Of))
		}
	}
}

// sent describes the requests.
func (c *cost) sent() string {
	if c.Of == 0 {
		return "-"
	}
	var parts []string
	add := func(count int, what string) {
		if count > 0 {
			parts = append(parts, fmt.Sprintf("%.2f %s", float64(count)/float64(c.Of), what))
		}
	}
	add(c.Requests.Patch, "PATCH")
	add(c.Requests.DryRun, "dry-run PATCH")
	add(c.Requests.Get, "GET")
	add(c.Requests.Delete, "DELETE")
	add(c.Requests.Status, "status")
	add(c.Requests.Events, "for Events")
	for _, what := range slices.Sorted(maps.Keys(c.Requests.Other)) {
		add(c.Requests.Other[what], what)
	}
	if len(parts) == 0 {
		return "none"
	}
	return "per " + c.Per + ": " + strings.Join(parts, ", ")
}

// number prints a figure with the digits that count.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// tableWriter keeps the first error of a series of writes.
type tableWriter struct {
	out io.Writer
	err error
}

func (t *tableWriter) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.out, format, args...)
	}
}
