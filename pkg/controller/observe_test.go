package controller_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// samples returns the samples of /metrics that contain text, sorted.
func samples(text string) []string {
	response := httptest.NewRecorder()
	legacyregistry.Handler().ServeHTTP(response, httptest.NewRequest("GET", "/metrics", nil))
	var found []string
	for line := range strings.Lines(response.Body.String()) {
		if strings.Contains(line, text) && !strings.HasPrefix(line, "#") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	slices.Sort(found)
	return found
}

// samplesOf returns the samples of a controller, except the parts of its histogram that depend on the
// machine. In the samples, toys replaces the name of the controller.
func samplesOf(name string) []string {
	label := `controller="` + name + `"`
	found := samples(label)
	found = slices.DeleteFunc(found, func(s string) bool {
		return strings.Contains(s, "_bucket{") || strings.Contains(s, "_sum{")
	})
	for i := range found {
		found[i] = strings.Replace(found[i], label, `controller="toys"`, 1)
	}
	return found
}

func TestMetrics(t *testing.T) {
	broken := errors.New("broken")
	outcomes := map[string]func() (controller.Result, error){
		"well":   func() (controller.Result, error) { return controller.Result{}, nil },
		"later":  func() (controller.Result, error) { return controller.Result{RequeueAfter: time.Hour}, nil },
		"broken": func() (controller.Result, error) { return controller.Result{}, broken },
		"stale": func() (controller.Result, error) {
			return controller.Result{}, apierrors.NewConflict(toyResource, "a", broken)
		},
		"waits": func() (controller.Result, error) { return controller.Result{}, controller.WaitFor("W", "w", time.Hour) },
		"invalid": func() (controller.Result, error) {
			return controller.Result{}, apierrors.NewInvalid(toyKind.GroupKind(), "a", nil)
		},
		"stuck":    func() (controller.Result, error) { return controller.Result{}, controller.Stalled(broken, 0) },
		"cancels":  func() (controller.Result, error) { return controller.Result{}, context.Canceled },
		"panics":   panics,
		"working0": func() (controller.Result, error) { return controller.Result{}, nil },
	}
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		name := uniqueName()
		queue := controller.NewQueue("", clock.RealClock{})
		c := controller.New(name, queue, func(_ context.Context, key controller.Key) (controller.Result, error) {
			if key.Name == "working0" {
				<-gate
			}
			return outcomes[key.Name]()
		})
		stop, ended := start(c, 2)
		controllertest.Equal(t, "series before the first reconcile", []string{
			`controller_runtime_active_workers{controller="toys"} 0`,
			`controller_runtime_max_concurrent_reconciles{controller="toys"} 2`,
			`controller_runtime_reconcile_errors_total{controller="toys"} 0`,
			`controller_runtime_reconcile_panics_total{controller="toys"} 0`,
			`controller_runtime_reconcile_total{controller="toys",result="error"} 0`,
			`controller_runtime_reconcile_total{controller="toys",result="requeue_after"} 0`,
			`controller_runtime_reconcile_total{controller="toys",result="success"} 0`,
			`windlass_unreadable_objects{controller="toys"} 0`,
		}, samplesOf(name))

		for key := range outcomes {
			queue.Add(keyOf(key), controller.Urgent)
		}
		synctest.Wait()
		if got := samplesOf(name)[0]; got != `controller_runtime_active_workers{controller="toys"} 1` {
			t.Errorf("during a reconcile: %s", got)
		}
		close(gate)
		synctest.Wait()
		controllertest.Equal(t, "series after one reconcile with each outcome", []string{
			`controller_runtime_active_workers{controller="toys"} 0`,
			`controller_runtime_max_concurrent_reconciles{controller="toys"} 2`,
			`controller_runtime_reconcile_errors_total{controller="toys"} 4`,
			`controller_runtime_reconcile_panics_total{controller="toys"} 1`,
			`controller_runtime_reconcile_time_seconds_count{controller="toys"} 10`,
			`controller_runtime_reconcile_total{controller="toys",result="conflict"} 1`,
			`controller_runtime_reconcile_total{controller="toys",result="degraded"} 2`,
			`controller_runtime_reconcile_total{controller="toys",result="error"} 2`,
			`controller_runtime_reconcile_total{controller="toys",result="postponed"} 1`,
			`controller_runtime_reconcile_total{controller="toys",result="requeue_after"} 1`,
			`controller_runtime_reconcile_total{controller="toys",result="success"} 2`,
			`controller_runtime_reconcile_total{controller="toys",result="wait"} 1`,
			`windlass_unreadable_objects{controller="toys"} 0`,
		}, samplesOf(name))
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with: %v", err)
		}
	})
}

// values returns the keys and values of a log entry.
func values(entry ktesting.LogEntry) map[any]any {
	found := map[any]any{}
	list := append(slices.Clone(entry.WithKVList), entry.ParameterKVList...)
	for i := 0; i+1 < len(list); i += 2 {
		found[list[i]] = list[i+1]
	}
	return found
}

func TestLogs(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		pass   func() (controller.Result, error)
		errors int
		result string
	}{
		"an error is logged once": {func() (controller.Result, error) { return controller.Result{}, broken }, 1, "error"},
		"a panic is logged once":  {panics, 1, "error"},
		"Stalled is logged once": {
			func() (controller.Result, error) { return controller.Result{}, controller.Stalled(broken, 0) }, 1, "degraded",
		},
		"a conflict is not logged as an error": {func() (controller.Result, error) {
			return controller.Result{}, apierrors.NewConflict(toyResource, "a", broken)
		}, 0, "conflict"},
		"a reconcile without an error is logged as a success": {
			func() (controller.Result, error) { return controller.Result{}, nil }, 0, "success",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logged := runFor(t, time.Millisecond, func(context.Context, controller.Key) (controller.Result, error) {
					return test.pass()
				}, "a")
				var failures, ends []ktesting.LogEntry
				for _, entry := range logged.Data() {
					switch {
					case entry.Type == ktesting.LogError:
						failures = append(failures, entry)
					case entry.Message == "Reconcile ended" && entry.Verbosity == 2:
						ends = append(ends, entry)
					}
				}
				if len(failures) != test.errors || len(ends) != 1 {
					t.Fatalf("%d errors and %d ends were logged, wanted %d and 1:\n%s", len(failures), len(ends), test.errors, logged)
				}
				for _, entry := range append(failures, ends...) {
					checkEntry(t, values(entry), test.result)
				}
				for _, entry := range failures {
					_, traced := values(entry)["stack"]
					if traced != (name == "a panic is logged once") {
						t.Errorf("stack: %v, for a %s", values(entry)["stack"], name)
					}
				}
			})
		})
	}
}

var eightHex = regexp.MustCompile(`^[0-9a-f]{8}$`)

func checkEntry(t *testing.T, said map[any]any, result string) {
	t.Helper()
	if said["object"] != keyOf("a") || said["result"] != result || said["controller"] == nil {
		t.Errorf("logged %v", said)
	}
	if id, ok := said["reconcileID"].(string); !ok || !eightHex.MatchString(id) {
		t.Errorf("reconcileID is %v", said["reconcileID"])
	}
}

func TestEachReconcileHasUniqueID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := runFor(t, time.Minute-1, func(context.Context, controller.Key) (controller.Result, error) {
			return controller.Result{RequeueAfter: time.Second}, nil
		}, "a")
		ids := map[any]bool{}
		passes := 0
		for _, entry := range logged.Data() {
			if entry.Message == "Reconcile ended" {
				passes++
				ids[values(entry)["reconcileID"]] = true
			}
		}
		if passes != 60 || len(ids) != passes {
			t.Errorf("%d IDs for %d passes, wanted 60 for 60", len(ids), passes)
		}
	})
}
