package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"k8s.io/cli-runtime/pkg/printers"

	"windlass.dev/windlass/pkg/plan"
)

// Escape sequences of terminals (ECMA-48).
const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	reset = "\x1b[0m"
)

// Text returns the plan as text. colored is true for a terminal.
func (p Plan) Text(colored bool) string {
	paint := func(color, text string) string {
		if !colored {
			return text
		}
		return color + text + reset
	}
	var b strings.Builder
	for i := range p.Steps {
		s := &p.Steps[i]
		b.WriteString(paint(bold, s.title()) + "\n")
		for line := range strings.Lines(s.Diff) {
			line = Printable(strings.TrimSuffix(line, "\n"))
			switch {
			case s.Verb == plan.Execute:
			case strings.HasPrefix(line, "+"):
				line = paint(green, line)
			case strings.HasPrefix(line, "-"):
				line = paint(red, line)
			}
			b.WriteString("    " + line + "\n")
		}
		if s.ToKeepPods != "" {
			b.WriteString("To keep the Pods, add to the spec of " + Printable(s.By) + ":\n")
			for line := range strings.Lines(s.ToKeepPods) {
				b.WriteString("    " + Printable(strings.TrimSuffix(line, "\n")) + "\n")
			}
		}
		b.WriteString("\n")
	}
	for _, f := range p.Failed {
		fmt.Fprintf(&b, "%s cannot be planned: %s\n", f.Object, Printable(f.Message))
	}
	for _, w := range p.Waiting {
		fmt.Fprintf(&b, "%s is then not Ready: %s\n", w.Object, Printable(w.Message))
	}
	for _, note := range p.Notes {
		b.WriteString(Printable(note) + "\n")
	}
	if len(p.Failed)+len(p.Waiting)+len(p.Notes) > 0 {
		b.WriteString("\n")
	}
	b.WriteString(paint(bold, p.Summary.String()) + "\n")
	return b.String()
}

// title returns the line above the diff of a step.
func (s *Step) title() string {
	title := nameOf(s.Kind, s.Namespace, s.Name) + " " + s.Consequence
	if s.Verb == plan.Execute {
		title = s.By + " " + s.Consequence
	} else if s.By == plan.GarbageCollector {
		title += " (by the garbage collector)"
	} else if s.By != you {
		title += " (for " + s.By + ")"
	}
	if s.Due != "" {
		title = s.Due + ": " + title
	}
	if s.Unchecked {
		title += " (not checked by the API server)"
	}
	if s.Error != "" {
		title += ": " + s.Error
	}
	return Printable(title)
}

// Table writes rows as a table. It replaces characters that are not printable.
func Table(w io.Writer, rows [][]string) error {
	table := printers.GetNewTabWriter(w)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = Printable(strings.ReplaceAll(cell, "\t", " "))
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) // Flush returns the error
	}
	return table.Flush()
}

// Lines writes lines. It replaces characters that are not printable.
func Lines(w io.Writer, lines ...string) {
	for _, line := range lines {
		_, _ = fmt.Fprintln(w, Printable(line))
	}
}

// JSON returns the plan as JSON, in which escapes stand for characters that are not printable.
func (p Plan) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(p, "", "  ")
	var b strings.Builder
	for _, r := range string(text) {
		if r == '\n' || unicode.IsPrint(r) || r > 0xffff {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return []byte(b.String() + "\n"), err
}

// Printable replaces characters that are not printable. Values of other users can have control characters, which act on
// a terminal.
func Printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, line)
}
