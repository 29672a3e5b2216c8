package controller

import (
	"errors"
	"strings"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Metrics that controller-runtime also has use the names of controller-runtime, so that dashboards for operators work.
// Other names begin with windlass_. The metrics of the workqueue come from component-base.
var (
	reconcileTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "controller_runtime_reconcile_total",
		Help: "Reconciles by controller and result: " + results() + ".",
	}, []string{"controller", "result"})
	reconcileErrors = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "controller_runtime_reconcile_errors_total",
		Help: "Reconciles that failed, by controller. Conflicts and waits are not failures.",
	}, []string{"controller"})
	reconcilePanics = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "controller_runtime_reconcile_panics_total",
		Help: "Reconciles that panicked, by controller.",
	}, []string{"controller"})
	reconcileTime = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:    "controller_runtime_reconcile_time_seconds",
		Help:    "Duration of a reconcile in seconds, by controller.",
		Buckets: metrics.ExponentialBuckets(0.0001, 4, 10),
	}, []string{"controller"})
	activeWorkers = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "controller_runtime_active_workers",
		Help: "Number of workers that are reconciling, by controller.",
	}, []string{"controller"})
	maxWorkers = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "controller_runtime_max_concurrent_reconciles",
		Help: "Maximum number of concurrent reconciles, by controller.",
	}, []string{"controller"})
	unreadableObjects = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "windlass_unreadable_objects",
		Help: "Number of objects that are not reconciled because they cannot be read or exceed a limit, by " +
			"controller. The log names them, and their status says why.",
	}, []string{"controller"})
	kindWatched = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "windlass_kind_watched",
		Help: "1 if the caches of a controller have synced, and no list or watch of its kind has failed " +
			"within the last two minutes; otherwise 0. The log names the error.",
	}, []string{"controller"})
	objects = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "windlass_objects",
		Help: "Number of objects by controller, state (ready, progressing, idle, degraded, stalled, paused " +
			"or deleting), status.phase and reason of Ready.",
	}, []string{"controller", "state", "phase", "reason"})
	oldestUnready = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "windlass_oldest_unready_object_age_seconds",
		Help: "Time since the oldest object in a state (progressing, degraded or deleting) was last Ready, " +
			"or was created or deleted, by controller. 0 if there is none.",
	}, []string{"controller", "state"})
	timeToReady = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "windlass_time_to_ready_seconds",
		Help: "Time from the last change of a spec until the object was Ready, by controller. Ats are " +
			"not measured.",
		Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600},
	}, []string{"controller"})
	queueWait = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:    "windlass_queue_wait_seconds",
		Help:    "Time that a key waited for a worker, by controller and lane (urgent or background).",
		Buckets: metrics.ExponentialBuckets(0.001, 4, 10),
	}, []string{"controller", "lane"})
	eventsDropped = metrics.NewCounter(&metrics.CounterOpts{
		Name: "windlass_events_dropped_total",
		Help: "Events that the operator dropped because its queue was full, because the object had too many Events, " +
			"or because the API server rejected the Event.",
	})
)

func init() {
	legacyregistry.MustRegister(reconcileTotal, reconcileErrors, reconcilePanics, reconcileTime, activeWorkers,
		maxWorkers, unreadableObjects, kindWatched, objects, oldestUnready, timeToReady, queueWait, eventsDropped)
}

// results lists the values of the label "result".
func results() string {
	names := make([]string, 0, len(outcomes))
	for _, name := range outcomes {
		names = append(names, string(name))
	}
	return strings.Join(names, ", ")
}

// recordReconcile records the outcome and the duration of a reconcile.
func recordReconcile(controller string, d decision, took time.Duration) {
	reconcileTotal.WithLabelValues(controller, string(d.outcome)).Inc()
	reconcileTime.WithLabelValues(controller).Observe(took.Seconds())
	if d.err == nil {
		return
	}
	reconcileErrors.WithLabelValues(controller).Inc()
	if errors.As(d.err, new(*panicError)) {
		reconcilePanics.WithLabelValues(controller).Inc()
	}
}

// initMetrics creates the main series of a controller before their values first change, so that rates are
// correct from the start. A process may run several controllers with the same name, whose values add up.
func initMetrics(controller string, workers int) {
	maxWorkers.WithLabelValues(controller).Add(float64(workers))
	activeWorkers.WithLabelValues(controller).Add(0)
	unreadableObjects.WithLabelValues(controller).Add(0)
	reconcileErrors.WithLabelValues(controller).Add(0)
	reconcilePanics.WithLabelValues(controller).Add(0)
	for _, name := range []Outcome{OutcomeSuccess, OutcomeRequeueAfter, OutcomeError} {
		reconcileTotal.WithLabelValues(controller, string(name)).Add(0)
	}
}

// removeMetrics subtracts the values of a controller that has ended from the gauges.
func (c *Controller) removeMetrics(workers int) {
	maxWorkers.WithLabelValues(c.name).Add(-float64(workers))
	kindWatched.Delete(map[string]string{"controller": c.name}) // UpdateMetrics restores it while another one runs
	for _, state := range unfinished {
		oldestUnready.Delete(map[string]string{"controller": c.name, "state": state})
	}
	if c.objects != nil {
		c.objects.removeAll()
	}
}

// UpdateMetrics sets the metrics that change with time, of all controllers in a process: whether each kind is watched,
// and the age of its oldest object that is not Ready. It is called before the metrics are read.
func UpdateMetrics(controllers []*Controller) {
	ages := map[[2]string]time.Duration{}
	watched := map[string]float64{}
	for _, c := range controllers {
		if !c.Watched() {
			watched[c.name] = 0
		} else if _, known := watched[c.name]; !known {
			watched[c.name] = 1
		}
		if c.objects == nil {
			continue
		}
		for state, age := range c.objects.ages() {
			ages[[2]string{c.name, state}] = max(ages[[2]string{c.name, state}], age)
		}
	}
	for name, value := range watched {
		kindWatched.WithLabelValues(name).Set(value)
	}
	for labels, age := range ages {
		oldestUnready.WithLabelValues(labels[0], labels[1]).Set(age.Seconds())
	}
}
