package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

const (
	// healGoal is how many times the floor a heal may take.
	healGoal = 1.3
	// structuralGoal is how many times the floor of one PATCH the heal of a structural edit
	// may take, which needs two.
	structuralGoal = 2.2
)

// environment is what the figures depend on.
type environment struct {
	Kubernetes string `json:"kubernetes"`
	CPUs       int    `json:"cpus"`
}

// healReport is the result of heal.
type healReport struct {
	Environment environment  `json:"environment"`
	Rounds      int          `json:"rounds"`
	Objects     int          `json:"objects"`
	Edits       []editReport `json:"edits"`
	// Ratio is the median of the ratios of the edits of values, StructuralRatio that of the
	// structural ones.
	Ratio           float64 `json:"ratio"`
	Goal            float64 `json:"goal"`
	StructuralRatio float64 `json:"structuralRatio"`
	StructuralGoal  float64 `json:"structuralGoal"`
	// Heals is how many edits Vidra reverted, with how many Requests.
	Heals    int      `json:"heals"`
	Requests requests `json:"requests"`
}

// editReport is the result for one edit.
type editReport struct {
	Edit  string  `json:"edit"`
	Floor figures `json:"floor"`
	Vidra figures `json:"vidra"`
	// Ratio of the medians, Vidra to floor.
	Ratio float64 `json:"ratio"`
}

// figures sum up the laps of one edit on one side. Times are in milliseconds.
type figures struct {
	N      int     `json:"n"`
	Missed int     `json:"missed"`
	Median float64 `json:"medianMs"`
	P95    float64 `json:"p95Ms"`
}

// newHealReport sums up the laps of both sides.
func newHealReport(o healOptions, env environment, floor, vidra []laps, sent requests) *healReport {
	r := &healReport{
		Environment: env, Rounds: o.rounds, Objects: o.objects, Goal: healGoal, StructuralGoal: structuralGoal, Requests: sent,
	}
	var ratios, structural []float64
	for i, e := range edits {
		line := editReport{Edit: e.name, Floor: sumUp(floor[i]), Vidra: sumUp(vidra[i])}
		r.Heals += line.Vidra.N
		if line.Floor.N > 0 && line.Vidra.N > 0 {
			line.Ratio = round2(line.Vidra.Median / line.Floor.Median)
			if e.structural == "" {
				ratios = append(ratios, line.Ratio)
			} else {
				structural = append(structural, line.Ratio)
			}
		}
		r.Edits = append(r.Edits, line)
	}
	r.Ratio, r.StructuralRatio = round2(quantile(ratios, 0.5)), round2(quantile(structural, 0.5))
	return r
}

func sumUp(l laps) figures {
	var ms []float64
	for _, d := range l.stood {
		ms = append(ms, float64(d)/float64(time.Millisecond))
	}
	return figures{
		N: len(ms), Missed: l.missed,
		Median: round2(quantile(ms, 0.5)), P95: round2(quantile(ms, 0.95)),
	}
}

// quantile is the q-quantile of values, interpolated linearly between the two
// nearest; 0 for no values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (sorted[high]-sorted[low])*(at-float64(low))
}

func round2(v float64) float64 { return math.Round(v*100) / 100 }

// verdict is an error if an edit was missed: a figure over what was reverted
// says nothing then.
func (r *healReport) verdict() error {
	floor, vidra := 0, 0
	for _, e := range r.Edits {
		floor += e.Floor.Missed
		vidra += e.Vidra.Missed
	}
	switch {
	case vidra > 0:
		return fmt.Errorf("vidra missed %d of %d edits", vidra, vidra+r.Heals)
	case floor > 0:
		return fmt.Errorf("the floor missed %d edits: the measurement is void", floor)
	}
	return nil
}

// json prints the report for programs.
func (r *healReport) json(out io.Writer) error { return printJSON(out, r) }

// table prints the report as a table.
func (r *healReport) table(out io.Writer) error {
	_, _ = fmt.Fprintf(out, "%-28s %4s %7s   %12s %9s   %12s %9s   %5s\n",
		"EDIT", "N", "MISSED", "FLOOR MEDIAN", "P95", "VIDRA MEDIAN", "P95", "RATIO")
	for _, e := range r.Edits {
		_, _ = fmt.Fprintf(out, "%-28s %4d %7d   %9.1f ms %6.1f ms   %9.1f ms %6.1f ms   %5.2f\n", e.Edit,
			e.Vidra.N+e.Vidra.Missed, e.Vidra.Missed, e.Floor.Median, e.Floor.P95, e.Vidra.Median, e.Vidra.P95, e.Ratio)
	}
	_, err := fmt.Fprintf(out, "\nMedian ratio %.2f: goal %.1f %s. Structural edits, beside the floor of one PATCH: %.2f, goal %.1f %s.\n"+
		"%d objects, Kubernetes %s, %d CPUs.\n%s\n",
		r.Ratio, r.Goal, reached(r.Ratio, r.Goal), r.StructuralRatio, r.StructuralGoal, reached(r.StructuralRatio, r.StructuralGoal),
		r.Objects, r.Environment.Kubernetes, r.Environment.CPUs, r.sent())
	return err
}

// reached says whether a ratio is within its goal.
func reached(ratio, goal float64) string {
	if ratio > goal {
		return "missed"
	}
	return "reached"
}

// sent says what the heals cost the API server.
func (r *healReport) sent() string {
	per := func(n int) float64 { return float64(n) / float64(max(r.Heals, 1)) }
	text := fmt.Sprintf("The operator sent per heal: %.2f PATCH, %.2f GET; %.2f status patches, %.2f for Events.",
		per(r.Requests.Patch), per(r.Requests.Get), per(r.Requests.Status), per(r.Requests.Events))
	if len(r.Requests.Other) > 0 {
		text += fmt.Sprintf(" In all: %v.", r.Requests.Other)
	}
	return text
}
