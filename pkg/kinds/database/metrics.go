package database

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

var (
	restarts = metrics.NewCounter(&metrics.CounterOpts{
		Name: "windlass_database_restarts_total",
		Help: "Restarts of the container of PostgreSQL in the Pods of Databases that this process has " +
			"observed. A Pod that is replaced is not counted.",
		StabilityLevel: metrics.ALPHA,
	})
	volumeInfo = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "windlass_database_volume_info",
		Help: "1 for the PersistentVolumeClaim of each Database, to select the metrics " +
			"kubelet_volume_stats_*. Served only with --metrics-object-names, for at most 10,000 Databases.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"namespace", "persistentvolumeclaim"})
)

func init() { legacyregistry.MustRegister(restarts, volumeInfo) }

// restartCounter returns a handler of Pods that counts the restarts of PostgreSQL.
func restartCounter() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{UpdateFunc: func(oldObj, newObj any) {
		before, ok1 := oldObj.(*corev1.Pod)
		after, ok2 := newObj.(*corev1.Pod)
		if !ok1 || !ok2 || before.UID != after.UID || len(runners(after)) == 0 {
			return
		}
		if n := pods.StatusOf(after, containerName).RestartCount - pods.StatusOf(before, containerName).RestartCount; n > 0 {
			restarts.Add(float64(n))
		}
	}}
}

// maxVolumes limits the series of windlass_database_volume_info.
const maxVolumes = 10_000

// volumeLister is the handler of Databases that sets windlass_database_volume_info. An informer calls a handler for one
// event at a time.
type volumeLister struct{ listed sets.Set[controller.Key] }

func newVolumeLister() *volumeLister { return &volumeLister{sets.New[controller.Key]()} }

// OnAdd implements cache.ResourceEventHandler. The claim has the name of the Database.
func (l *volumeLister) OnAdd(obj any, _ bool) {
	db, err := meta.Accessor(obj)
	if err != nil || len(l.listed) >= maxVolumes {
		return
	}
	l.listed.Insert(cache.MetaObjectToName(db))
	volumeInfo.WithLabelValues(db.GetNamespace(), db.GetName()).Set(1)
}

// OnUpdate implements cache.ResourceEventHandler.
func (l *volumeLister) OnUpdate(_, obj any) { l.OnAdd(obj, false) }

// OnDelete implements cache.ResourceEventHandler.
func (l *volumeLister) OnDelete(obj any) {
	key, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return
	}
	l.listed.Delete(key)
	volumeInfo.Delete(map[string]string{"namespace": key.Namespace, "persistentvolumeclaim": key.Name})
}
