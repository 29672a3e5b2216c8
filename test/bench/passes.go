package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// passesBefore is how many passes begin, by a log, before the first for the App of a name.
func passesBefore(log, name string) (n int, err error) {
	var begins []time.Time
	var own time.Time
	for line := range strings.Lines(log) {
		at, ok, err := beginOf(line)
		if err != nil {
			return 0, err
		}
		if !ok {
			continue
		}
		if strings.Contains(line, name) && (own.IsZero() || at.Before(own)) {
			own = at
		}
		begins = append(begins, at)
	}
	if own.IsZero() {
		return 0, fmt.Errorf("it does not tell of a pass for %s", name)
	}
	for _, at := range begins {
		if at.Before(own) {
			n++
		}
	}
	return n, nil
}

// ended is a line of Windlass: when a pass has ended, and how long it took.
var ended = regexp.MustCompile(`^I\d{4} (\d\d:\d\d:\d\d\.\d+) .* "Reconcile ended" .*duration="([^"]+)"`)

// begun is a line of a peer.
var begun = regexp.MustCompile(`"ts":"([^"]+)","msg":"Pass begins"`)

// beginOf is when the pass began of which a line tells, if it tells of one.
func beginOf(line string) (at time.Time, ok bool, err error) {
	if match := begun.FindStringSubmatch(line); match != nil {
		at, err = time.Parse(time.RFC3339Nano, match[1])
		return at, true, err
	}
	match := ended.FindStringSubmatch(line)
	if match == nil {
		return at, false, nil
	}
	took, err := time.ParseDuration(match[2])
	if err != nil {
		return at, false, fmt.Errorf("reading %q: %w", line, err)
	}
	at, err = time.Parse("15:04:05.999999", match[1])
	return at.Add(-took), true, err
}
