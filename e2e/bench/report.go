package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// The sides that a benchmark compares.
const (
	// floorSide is the least that can do the work.
	floorSide = "floor"
	vidraSide = "Vidra"
	// fluxSide is the peer: see runFlux.
	fluxSide = "Flux ssa"
)

// report is the result of a benchmark.
type report struct {
	Benchmark string `json:"benchmark"`
	// Settings are the sizes of this run, as a sentence.
	Settings    string      `json:"settings"`
	Environment environment `json:"environment"`
	// Lines have what was measured, one for each thing that all sides did.
	Lines []*line `json:"lines"`
	// Costs are what the sides took of the machine, and which requests they sent.
	Costs []*cost `json:"costs"`
	Goals []goal  `json:"goals,omitempty"`
	// Notes are what a reader has to know of the figures.
	Notes []string `json:"notes,omitempty"`
	// Failures are why the figures are not what they are said to be.
	Failures []string `json:"failures,omitempty"`
}

// line is one thing that was measured.
type line struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Sides begin with the one that the others are compared with.
	Sides []*figures `json:"sides"`
}

// figures sum up what was measured of one side.
type figures struct {
	Side string `json:"side"`
	// N is how many values there are, and Missed how often there was none.
	N      int     `json:"n"`
	Missed int     `json:"missed"`
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
	// Ratio is the median divided by that of the first side of the line; 0 if there is none.
	Ratio  float64   `json:"ratio,omitempty"`
	Values []float64 `json:"values"`
}

// cost is what one side took.
type cost struct {
	Side     string   `json:"side"`
	Usage    usage    `json:"usage"`
	Requests requests `json:"requests"`
	// CPU is that of all processes while the side worked.
	CPU cpuTimes `json:"cpuSecondsOfAll,omitempty"`
	// Of is how many things of the kind Per the requests were sent for.
	Of  int    `json:"of"`
	Per string `json:"per"`
}

// goal is a figure that should not be above a limit.
type goal struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
}

// reached reports whether the goal is.
func (g goal) reached() bool { return g.Value <= g.Limit }

// side returns the figures of a side in a line, and makes what is missing.
func (r *report) side(name, unit, side string) *figures {
	var of *line
	if i := slices.IndexFunc(r.Lines, func(l *line) bool { return l.Name == name }); i >= 0 {
		of = r.Lines[i]
	} else {
		of = &line{Name: name, Unit: unit}
		r.Lines = append(r.Lines, of)
	}
	if f := of.side(side); f != nil {
		return f
	}
	f := &figures{Side: side, Values: []float64{}}
	of.Sides = append(of.Sides, f)
	slices.SortStableFunc(of.Sides, func(a, b *figures) int { return rank(a.Side) - rank(b.Side) })
	return f
}

// rank is the place of a side in a line: the floor comes first, and the peer last.
func rank(side string) int {
	switch side {
	case floorSide:
		return 0
	case vidraSide:
		return 2
	case fluxSide:
		return 3
	}
	return 1
}

// side returns the figures of a side, nil if there are none.
func (l *line) side(name string) *figures {
	if i := slices.IndexFunc(l.Sides, func(f *figures) bool { return f.Side == name }); i >= 0 {
		return l.Sides[i]
	}
	return nil
}

// add notes a value.
func (r *report) add(name, unit, side string, value float64) {
	f := r.side(name, unit, side)
	f.Values = append(f.Values, value)
}

// cost returns the cost of a side, and makes it if it is missing.
func (r *report) cost(side string) *cost {
	if i := slices.IndexFunc(r.Costs, func(c *cost) bool { return c.Side == side }); i >= 0 {
		return r.Costs[i]
	}
	c := &cost{Side: side, Requests: requests{Other: map[string]int{}}}
	r.Costs = append(r.Costs, c)
	slices.SortStableFunc(r.Costs, func(a, b *cost) int { return rank(a.Side) - rank(b.Side) })
	return c
}

// values is how many values a side has in all lines.
func (r *report) values(side string) (n int) {
	for _, l := range r.Lines {
		if f := l.side(side); f != nil {
			n += len(f.Values)
		}
	}
	return n
}

// sumUp computes the figures from the values.
func (r *report) sumUp() {
	for _, l := range r.Lines {
		for i, f := range l.Sides {
			f.N = len(f.Values)
			for _, q := range []struct {
				of *float64
				q  float64
			}{{&f.Min, 0}, {&f.Median, 0.5}, {&f.P90, 0.9}, {&f.P99, 0.99}, {&f.Max, 1}} {
				*q.of = rounded(quantile(f.Values, q.q))
			}
			if i > 0 && f.N > 0 && l.Sides[0].Median > 0 {
				f.Ratio = round2(f.Median / l.Sides[0].Median)
			}
			for j := range f.Values {
				f.Values[j] = rounded(f.Values[j])
			}
		}
	}
}

// ratio is the median of Vidra's ratios in the lines that are asked for.
func (r *report) ratio(of func(name string) bool) float64 {
	var ratios []float64
	for _, l := range r.Lines {
		if vidra := l.side(vidraSide); vidra != nil && vidra.Ratio > 0 && of(l.Name) {
			ratios = append(ratios, vidra.Ratio)
		}
	}
	return round2(quantile(ratios, 0.5))
}

// verdict is an error if the figures are not what they are said to be: over what a side did not
// do, they say nothing.
func (r *report) verdict() error {
	failures := r.Failures
	for _, side := range []string{vidraSide, floorSide} {
		missed, all := 0, 0
		for _, l := range r.Lines {
			if f := l.side(side); f != nil {
				missed += f.Missed
				all += f.Missed + f.N
			}
		}
		if missed > 0 {
			failures = append(failures, fmt.Sprintf("%s missed %d of %d", side, missed, all))
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return fmt.Errorf("%s: the measurement is void: %s", r.Benchmark, strings.Join(failures, "; "))
}

// json prints the report for programs.
func (r *report) json(out io.Writer) error { return printJSON(out, r) }

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

// rounded has four digits that count: more are noise.
func rounded(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
