package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// passesBefore counts the reconciles in a log that begin before the first reconcile of the named App.
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
		return 0, fmt.Errorf("the log has no reconcile of %s", name)
	}
	for _, at := range begins {
		if at.Before(own) {
			n++
		}
	}
	return n, nil
}

// ended matches a line in the log of Windlass, with the time at which a reconcile ended and its duration.
var ended = regexp.MustCompile(`^I\d{4} (\d\d:\d\d:\d\d\.\d+) .* "Reconcile ended" .*duration="([^"]+)"`)

// begun matches a line in the log of a peer, with the time at which a reconcile began.
var begun = regexp.MustCompile(`"ts":"([^"]+)","msg":"Reconcile begins"`)

// beginOf returns the time at which the reconcile in a line of a log began. ok is false if the line is not
// about a reconcile.
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
