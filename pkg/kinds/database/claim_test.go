package database

import (
	"encoding/json"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// ownLabels are all labels that the operator sets on a claim.
var ownLabels = map[string]string{"app.kubernetes.io/name": "database", "app.kubernetes.io/managed-by": "windlass"}

func TestNoChildHasLabelOfDatabase(t *testing.T) {
	f := newFixture(t, example(func(db *v1alpha1.Database) { kindtest.Track(db) }))
	r := f.Reconcile()
	controllertest.ErrorContains(t, "", r.Err)
	controllertest.Equal(t, "labels and annotations of the Database on other objects", nil, f.Tracked())
	controllertest.Equal(t, "labels of the claim", ownLabels, f.claim().Labels)
}

// TestReconcileRemovesRecordedLabelsFromClaim has claims with labels of the Database, which an operator has set.
func TestReconcileRemovesRecordedLabelsFromClaim(t *testing.T) {
	asBefore := map[string]string{"argocd.argoproj.io/instance": "shop", "team": "storefront"}
	maps.Copy(asBefore, selectorOf(example()))
	for name, c := range map[string]struct {
		record func(before string) string
		others map[string]string
		want   map[string]string
	}{
		"recorded labels are removed": {record: asRecorded(t, asBefore), want: ownLabels},
		"a label of somebody else stays": {
			record: asRecorded(t, asBefore), others: map[string]string{
				"backup": "daily",
			}, want: with(ownLabels, "backup", "daily"),
		},
		"other labels stay if the record is broken":  {record: func(string) string { return "{" }, want: asBefore},
		"other labels stay if the record is missing": {record: func(string) string { return "" }, want: asBefore},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			f.changeClaim(func(claim *corev1.PersistentVolumeClaim) {
				claim.Labels = maps.Clone(asBefore)
				maps.Copy(claim.Labels, c.others)
				claim.Annotations[children.RecordAnnotation] = c.record(claim.Annotations[children.RecordAnnotation])
			})
			r := f.Reconcile()
			controllertest.ErrorContains(t, "", r.Err)
			controllertest.Equal(t, "writes", []string{patchClaim}, r.Writes)
			controllertest.Equal(t, "labels of the claim", c.want, f.claim().Labels)
			r = f.Reconcile()
			controllertest.ErrorContains(t, "", r.Err)
			controllertest.Equal(t, "writes of the next reconcile", nil, r.Writes)
		})
	}
}

func with(labels map[string]string, key, value string) map[string]string {
	labels = maps.Clone(labels)
	labels[key] = value
	return labels
}

// asRecorded returns a function that replaces the labels in the record of a claim.
func asRecorded(t *testing.T, labels map[string]string) func(string) string {
	t.Helper()
	return func(record string) string {
		var claim corev1.PersistentVolumeClaim
		if err := json.Unmarshal([]byte(record), &claim); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(map[string]any{"metadata": metav1.ObjectMeta{
			Namespace: claim.Namespace, Name: claim.Name, Labels: labels, Annotations: claim.Annotations,
		}, "spec": claim.Spec})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}
