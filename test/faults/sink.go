package faults

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/controller"
)

// nowhere drops the events that tell users of transitions.
type nowhere struct{}

func (nowhere) Event(controller.Object, string, string, string) {}

// sink reads the log of a process, which tells of each pass.
type sink struct {
	run     *run
	process *process
	values  []any
}

// verbosity is that at which the engine logs the end of each pass.
const verbosity = 2

func (s *sink) Init(logr.RuntimeInfo)        {}
func (s *sink) Enabled(level int) bool       { return level <= verbosity }
func (s *sink) WithName(string) logr.LogSink { return s }

func (s *sink) WithValues(values ...any) logr.LogSink {
	return &sink{s.run, s.process, append(slices.Clone(s.values), values...)}
}

func (s *sink) Info(_ int, message string, values ...any) {
	s.run.log("I", s, message, nil, values)
	if message == "Reconcile ended" {
		s.run.passed(s.process, s.value("reconcileID"), s.value("controller")+" "+s.value("object"), lookUp(values, "result"))
	}
}

func (s *sink) Error(err error, message string, values ...any) {
	s.run.log("E", s, message, err, values)
	if lookUp(values, "stack") != "" {
		s.run.violate("%s: %v\n%s", message, err, lookUp(values, "stack"))
	}
}

func (s *sink) value(key string) string { return lookUp(s.values, key) }

func lookUp(values []any, key string) string {
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] == key {
			return fmt.Sprint(values[i+1])
		}
	}
	return ""
}

// passOf is the pass that a context belongs to.
func passOf(ctx context.Context) string {
	if s, ok := klog.FromContext(ctx).GetSink().(*sink); ok {
		return s.value("reconcileID")
	}
	return ""
}
