package main

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// sideColors are the colors of the sides, by rank.
var sideColors = []color.Color{
	color.RGBA{R: 0x9e, G: 0x9e, B: 0x9e, A: 0xff}, color.RGBA{R: 0x8d, G: 0xa0, B: 0xcb, A: 0xff},
	color.RGBA{R: 0x1b, G: 0x9e, B: 0x77, A: 0xff}, color.RGBA{R: 0xd9, G: 0x5f, B: 0x02, A: 0xff},
}

// plots draws a report: a picture for each unit of its lines, each as SVG and as PNG. Bars are
// medians, and lines from them reach to the 99th percentile.
func (r *report) plots(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var units []string
	for _, l := range r.Lines {
		if !slices.Contains(units, l.Unit) {
			units = append(units, l.Unit)
		}
	}
	for _, unit := range units {
		p, size, err := r.draw(unit)
		if err != nil {
			return fmt.Errorf("drawing %s in %s: %w", r.Benchmark, unit, err)
		}
		name := r.Benchmark
		if len(units) > 1 {
			name += "-" + unit
		}
		path := filepath.Join(dir, fileName(name))
		if err := errors.Join(save(p, size, path, "svg"), save(p, size, path, "png")); err != nil {
			return err
		}
	}
	return nil
}

// save writes a picture with a border in a format.
func save(p *plot.Plot, height vg.Length, path, format string) error {
	canvas, err := draw.NewFormattedCanvas(22*vg.Centimeter, height, format)
	if err != nil {
		return err
	}
	p.Draw(draw.Crop(draw.New(canvas), border, -border, border, -border))
	file, err := os.Create(path + "." + format) //nolint:gosec // where the user wants it
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(file)
	return errors.Join(err, file.Close())
}

// fileName is a name with only those characters that each file system takes.
func fileName(name string) string {
	return regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(name, "-")
}

const (
	// lineHeight is how high a line of a report is drawn, and barHeight a bar in it; margins are above and below all.
	lineHeight, barHeight, margins = vg.Length(44), vg.Length(9), vg.Length(115)
	// border is around the picture.
	border = vg.Length(10)
	// barStep is the distance of two bars of a line, where that of two lines is 1.
	barStep = 0.24
)

// draw draws the lines with a unit, and returns how high the picture should be.
func (r *report) draw(unit string) (*plot.Plot, vg.Length, error) {
	lines := slices.DeleteFunc(slices.Clone(r.Lines), func(l *line) bool { return l.Unit != unit })
	slices.Reverse(lines) // the axis begins at the bottom
	var sides, names []string
	for _, l := range lines {
		names = append(names, l.Name)
		for _, f := range l.Sides {
			if !slices.Contains(sides, f.Side) {
				sides = append(sides, f.Side)
			}
		}
	}
	slices.SortStableFunc(sides, func(a, b string) int { return rank(a) - rank(b) })
	p := plot.New()
	p.Title.Text = r.Benchmark + ": " + r.Settings
	p.X.Label.Text = unit
	p.Legend.Top = true
	p.NominalY(names...)
	for i, side := range sides {
		offset := barStep * (float64(len(sides)-1)/2 - float64(i))
		if err := drawSide(p, lines, side, offset); err != nil {
			return nil, 0, err
		}
	}
	p.X.Min, p.X.Max = 0, p.X.Max*1.2 // with room for the labels
	p.Y.Min, p.Y.Max = -0.6, float64(len(lines))-0.4
	return p, margins + vg.Length(len(lines))*lineHeight, nil
}

// drawSide draws the bars of a side, at an offset from the lines.
func drawSide(p *plot.Plot, lines []*line, side string, offset float64) error {
	var medians plotter.Values
	var s spread
	for at, l := range lines {
		f := l.side(side)
		if f == nil {
			f = &figures{}
		}
		medians = append(medians, f.Median)
		if f.N == 0 && f.Missed == 0 {
			continue
		}
		text := number(f.Median)
		if f.N == 0 {
			text = "missed"
		}
		if f.Ratio > 0 {
			text += fmt.Sprintf(" (%.2f x)", f.Ratio)
		}
		s.XYs = append(s.XYs, plotter.XY{X: f.Median, Y: float64(at) + offset})
		s.above = append(s.above, max(f.P99-f.Median, 0))
		s.texts = append(s.texts, " "+text)
	}
	bars, err := plotter.NewBarChart(medians, barHeight)
	if err != nil {
		return err
	}
	bars.Horizontal, bars.XMin = true, offset
	bars.Color, bars.LineStyle.Width = sideColors[rank(side)], 0
	p.Add(bars)
	p.Legend.Add(side, bars)
	return s.draw(p)
}

// spread is how far the values of one side reach above their medians.
type spread struct {
	plotter.XYs
	above []float64
	texts []string
}

// XError returns how far an error bar reaches to each side.
func (s spread) XError(i int) (low, high float64) { return 0, s.above[i] }

// draw draws lines to the 99th percentiles, and the medians as texts behind them.
func (s spread) draw(p *plot.Plot) error {
	reach, err := plotter.NewXErrorBars(s)
	if err != nil {
		return err
	}
	texts := plotter.XYLabels{Labels: s.texts}
	for i, xy := range s.XYs {
		texts.XYs = append(texts.XYs, plotter.XY{X: xy.X + s.above[i], Y: xy.Y})
	}
	labels, err := plotter.NewLabels(texts)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font.Size = vg.Points(8)
		labels.TextStyle[i].YAlign = draw.YCenter
	}
	p.Add(reach, labels)
	return nil
}
