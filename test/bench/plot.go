package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// line is the cost of one contestant over the number of objects.
type line struct {
	name   string
	points []point
}

// Sizes of a plot, in units of its viewBox.
const (
	plotWidth, plotHeight  = 640, 320
	plotLeft, plotBottom   = 70, 40
	plotTop, plotRight     = 30, 150
	ticksOfAnAxis          = 5
	plotFont               = 12
	plotInnerW, plotInnerH = plotWidth - plotLeft - plotRight, plotHeight - plotTop - plotBottom
)

// distinguishable for colour-blind readers (M. Okabe, K. Ito, 2008)
var colours = []string{"#0072b2", "#d55e00", "#e69f00", "#009e73"}

// plot writes lines to a file, as SVG. Both axes begin at 0.
func plot(file, title, unit string, lines []line) error {
	var right, top float64
	for _, l := range lines {
		for _, p := range l.points {
			right, top = max(right, p.x), max(top, p.y)
		}
	}
	x := func(v float64) float64 { return plotLeft + v/right*plotInnerW }
	y := func(v float64) float64 { return plotHeight - plotBottom - v/top*plotInnerH }
	var svg strings.Builder
	fmt.Fprintf(&svg,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="%d">`+"\n",
		plotWidth, plotHeight, plotFont)
	fmt.Fprintf(&svg,
		`<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="18" font-weight="bold">%s</text>`+"\n",
		plotLeft, title)
	for i := range ticksOfAnAxis + 1 {
		v := top * float64(i) / ticksOfAnAxis
		fmt.Fprintf(&svg,
			`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			plotLeft, plotLeft+plotInnerW, y(v), y(v), plotLeft-6, y(v)+4, short(v))
	}
	for _, p := range lines[0].points {
		fmt.Fprintf(&svg, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x(p.x), plotHeight-plotBottom+18,
			short(p.x))
	}
	fmt.Fprintf(&svg, `<text x="%d" y="%d">Apps</text><text x="6" y="18">%s</text>`+"\n", plotLeft+plotInnerW+10,
		plotHeight-plotBottom+18, unit)
	for i, l := range lines {
		colour := colours[i%len(colours)]
		var path []string
		for _, p := range l.points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(p.x), y(p.y)))
			fmt.Fprintf(&svg, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(p.x), y(p.y), colour)
		}
		fmt.Fprintf(&svg, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n",
			strings.Join(path, " "), colour)
		fmt.Fprintf(&svg, `<text x="%d" y="%.1f" fill="%s">%s</text>`+"\n", plotLeft+plotInnerW+10, legend(lines, i, y),
			colour, l.name)
	}
	svg.WriteString("</svg>\n")
	return os.WriteFile(file, []byte(svg.String()), 0o644)
}

// legend returns the vertical position of the name of a line: at its end, without overlapping other names.
func legend(lines []line, of int, y func(float64) float64) float64 {
	order := make([]int, len(lines))
	for i := range order {
		order[i] = i
	}
	end := func(i int) float64 { return y(lines[i].points[len(lines[i].points)-1].y) + 4 }
	slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, end(a)-end(b))) })
	at := math.Inf(-1)
	for _, i := range order {
		at = max(end(i), at+plotFont+2)
		if i == of {
			break
		}
	}
	return at
}

// short formats a number. A fraction has three significant digits.
func short(v float64) string {
	if v >= 1000 || v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// plots writes plots of the costs over the number of Apps.
func (r *results) plots(dir string) error {
	var times, cpus, heaps []line
	for _, name := range names {
		times = append(times, line{name, points(took, r.Turns[name])})
		cpus = append(cpus, line{name, points(cpu, r.Turns[name])})
		heaps = append(heaps, line{name, points(func(s size) float64 { return heap(s) / mebibyte }, r.Sizes[name])})
	}
	times = append(times, line{floorName, points(took, r.Turns[floorName])})
	cpus = append(cpus, line{floorName, points(cpu, r.Turns[floorName])})
	for _, p := range []struct {
		file, title, unit string
		lines             []line
	}{
		{"time.svg", "From the first child to the last status", "seconds", times},
		{"cpu.svg", "CPU time", "seconds", cpus},
		{"heap.svg", "Heap at rest", "MiB", heaps},
	} {
		if len(p.lines[0].points) == 0 {
			continue
		}
		if err := plot(filepath.Join(dir, p.file), p.title, p.unit, p.lines); err != nil {
			return err
		}
	}
	return nil
}
