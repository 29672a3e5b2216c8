package database

import (
	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// newReconciler returns a reconciler with the types of its children. It leaves refusals, look, users,
// events, image and clock unset.
func newReconciler(c kinds.Cluster, tracker *controller.Tracker) *reconciler {
	r := &reconciler{
		secrets:      c.Secrets().Type(tracker),
		settings:     c.Secrets().Type(tracker),
		services:     c.Services().Type(tracker),
		claims:       c.PersistentVolumeClaims().Type(tracker),
		statefulSets: c.StatefulSets().Type(tracker),
		pod: func(ns, name string) (*corev1.Pod, error) {
			return c.Owned.Core().V1().Pods().Lister().Pods(ns).Get(name)
		},
		podStore:  c.Owned.Core().V1().Pods().Informer().GetStore(),
		tracker:   tracker,
		databases: c.Windlass.WindlassV1alpha1(),
		pods:      c.Kube.CoreV1(),
		absences:  newAbsences(),
	}
	r.statefulSets.Yielded = [][]string{pods.RestartedAt}
	r.settings.Keep = keepRevision
	r.claims.Keep = keepVolume
	r.claims.Yielded = [][]string{{"spec", "storageClassName"}} // an existing volume keeps its class
	r.claims.Outlives = true
	return r
}
