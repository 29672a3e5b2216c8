package children_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

// newest sets a version that is newer than the version that made sets.
func newest(d *appsv1.Deployment) { d.ResourceVersion = "8" }

// stored sets fields that the API server and the Deployment controller set.
func stored(d *appsv1.Deployment) {
	d.CreationTimestamp, d.Generation = metav1.NewTime(time.Unix(1, 0)), 3
	d.Status.Replicas = 2
}

// The test measures allocations, whose number is the same on every machine.
func TestEnsureAvoidsUnnecessaryMerges(t *testing.T) {
	allocations := func(live *appsv1.Deployment) float64 {
		d := newDock(t, []*appsv1.Deployment{live}, []*appsv1.Deployment{live})
		return testing.AllocsPerRun(20, func() {
			if _, err := d.Ensure(t.Context(), owner(), want(), nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	merged, compared := allocations(made(t, stored, byOthers)), allocations(made(t, stored))
	t.Logf("allocations: %.0f for a merge, %.0f for a comparison", merged, compared)
	if compared > merged/10 {
		t.Errorf("a child that is what is wanted takes %.0f allocations, and one that is merged %.0f", compared, merged)
	}
}

// ours returns the desired container, which is the second one after byOthers.
func ours(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[1] }

func TestEnsureComparesChildAfterAnyChange(t *testing.T) {
	const patch = "patch deployments port/boat"
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		wants  []func(*appsv1.Deployment)
		writes []string
	}{
		"nothing":                       {},
		"its version alone":             {change: newest},
		"the child":                     {change: func(d *appsv1.Deployment) { newest(d); ours(d).Image = "iron:1" }, writes: []string{patch}},
		"the child, by what was added":  {change: func(d *appsv1.Deployment) { newest(d); d.Spec.Paused = true }},
		"what is wanted":                {wants: []func(*appsv1.Deployment){image("iron:1")}, writes: []string{patch}},
		"what is wanted, by one less":   {wants: []func(*appsv1.Deployment){without("FLAG")}, writes: []string{patch}},
		"the child, which is made anew": {change: func(d *appsv1.Deployment) { d.UID = "other"; ours(d).Image = "iron:1" }, writes: []string{patch}},
	} {
		t.Run(name, func(t *testing.T) {
			live := made(t, stored, byOthers) // so that a merge is needed
			d := newDock(t, []*appsv1.Deployment{live}, []*appsv1.Deployment{live})
			if _, err := d.Ensure(t.Context(), owner(), want(), nil); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "writes at first", nil, d.journal.Writes())
			changed := live.DeepCopy()
			if c.change != nil {
				c.change(changed)
			}
			if err := d.kube.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), changed, "port"); err != nil {
				t.Fatal(err)
			}
			controllertest.Load(t, d.cache, changed)
			if _, err := d.Ensure(t.Context(), owner(), want(c.wants...), nil); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "writes", c.writes, d.journal.Writes())
		})
	}
}

// If an upgrade changed the format of records, it would patch every child.
func TestRecordFormatIsStable(t *testing.T) {
	const as = `{"metadata":{"name":"boat","namespace":"port","labels":{"app.kubernetes.io/managed-by":"windlass","crew":"four"},` +
		`"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Ship","name":"boat","uid":"ship-uid","controller":true,"blockOwnerDeletion":true}]},` +
		`"spec":{"replicas":2,"selector":null,"template":{"metadata":{},"spec":{"containers":[{"name":"deck","image":"wood:1",` +
		`"env":[{"name":"SAIL","value":"white"},{"name":"FLAG","value":"blue"}],"resources":{}}]}},"strategy":{}}}`
	controllertest.Equal(t, "record", as, record(t, want()))
}
