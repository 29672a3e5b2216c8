package faults

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/controller"
)

// discardEvents is an EventRecorder that drops Events.
type discardEvents struct{}

func (discardEvents) Event(controller.Object, string, string, string) {}

// logSink receives the log of a process, and records each reconcile that the process logs.
type logSink struct {
	run     *run
	process *process
	values  []any
}

// verbosity is the level at which the engine logs the end of a reconcile.
const verbosity = 2

func (s *logSink) Init(logr.RuntimeInfo)        {}
func (s *logSink) Enabled(level int) bool       { return level <= verbosity }
func (s *logSink) WithName(string) logr.LogSink { return s }

func (s *logSink) WithValues(values ...any) logr.LogSink {
	return &logSink{s.run, s.process, append(slices.Clone(s.values), values...)}
}

func (s *logSink) Info(_ int, message string, values ...any) {
	s.run.log("I", s, message, nil, values)
	if message == "Reconcile ended" {
		s.run.recordReconcile(s.process, s.value("reconcileID"), s.value("controller")+" "+s.value("object"),
			valueOf(values, "result"))
	}
}

func (s *logSink) Error(err error, message string, values ...any) {
	s.run.log("E", s, message, err, values)
	if valueOf(values, "stack") != "" {
		s.run.addViolation("%s: %v\n%s", message, err, valueOf(values, "stack"))
	}
}

func (s *logSink) value(key string) string { return valueOf(s.values, key) }

func valueOf(values []any, key string) string {
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] == key {
			return fmt.Sprint(values[i+1])
		}
	}
	return ""
}

// reconcileIDOf returns the ID of the reconcile that a context belongs to, or "".
func reconcileIDOf(ctx context.Context) string {
	if s, ok := klog.FromContext(ctx).GetSink().(*logSink); ok {
		return s.value("reconcileID")
	}
	return ""
}
