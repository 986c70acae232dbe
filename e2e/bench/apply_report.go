package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// applyGoal is how many times the floor it may take until all VidraResources are ready.
const applyGoal = 3.0

// applyReport is the result of apply.
type applyReport struct {
	Environment environment  `json:"environment"`
	Resources   int          `json:"resources"`
	PerResource int          `json:"objectsPerResource"`
	Rounds      []applyRound `json:"rounds"`
	// Ratio is the median of the ratios of the rounds.
	Ratio float64 `json:"ratio"`
	Goal  float64 `json:"goal"`
	// Usage is what the operator took for all rounds, and Requests what it sent.
	Usage    usage    `json:"usage"`
	Requests requests `json:"requests"`
}

// applyRound is the result of one round. Times are in seconds.
type applyRound struct {
	Floor float64 `json:"floorSeconds"`
	Vidra float64 `json:"vidraSeconds"`
	Ratio float64 `json:"ratio"`
}

// sumUp computes the ratios.
func (r *applyReport) sumUp() {
	var ratios []float64
	for i := range r.Rounds {
		round := &r.Rounds[i]
		round.Ratio = round2(round.Vidra / round.Floor)
		ratios = append(ratios, round.Ratio)
	}
	r.Ratio = round2(quantile(ratios, 0.5))
}

// verdict is nil: a round that does not become ready is an error before.
func (r *applyReport) verdict() error { return nil }

// json prints the report for programs.
func (r *applyReport) json(out io.Writer) error { return printJSON(out, r) }

// table prints the report as a table.
func (r *applyReport) table(out io.Writer) error {
	_, _ = fmt.Fprintf(out, "%-6s %9s %9s %6s\n", "ROUND", "FLOOR", "VIDRA", "RATIO")
	for i, round := range r.Rounds {
		_, _ = fmt.Fprintf(out, "%-6d %7.2f s %7.2f s %6.2f\n", i+1, round.Floor, round.Vidra, round.Ratio)
	}
	_, err := fmt.Fprintf(out, "\n%d VidraResources with %d ConfigMaps each, Kubernetes %s, %d CPUs. Median ratio %.2f: goal %.1f %s.\n"+
		"The operator took %.1f s of CPU time, and has %.0f MiB of memory now, %.0f MiB at most.\n%s\n",
		r.Resources, r.PerResource, r.Environment.Kubernetes, r.Environment.CPUs, r.Ratio, r.Goal, reached(r.Ratio, r.Goal),
		r.Usage.CPU, mib(r.Usage.Resident), mib(r.Usage.Peak), r.Requests.each(r.Resources*len(r.Rounds)))
	return err
}

// each says how many requests the operator sent for each of n VidraResources.
func (r requests) each(n int) string {
	per := func(count int) float64 { return float64(count) / float64(max(n, 1)) }
	parts := []string{
		fmt.Sprintf("%.2f PATCH and %.2f GET of objects", per(r.Patch), per(r.Get)),
		fmt.Sprintf("%.2f status patches", per(r.Status)), fmt.Sprintf("%.2f for Events", per(r.Events)),
	}
	for _, what := range slices.Sorted(maps.Keys(r.Other)) {
		parts = append(parts, fmt.Sprintf("%.2f %s", per(r.Other[what]), what))
	}
	return "It sent for each VidraResource: " + strings.Join(parts, ", ") + "."
}
