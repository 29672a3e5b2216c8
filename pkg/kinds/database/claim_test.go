package database

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// tracked are labels by which tools recognise the objects that they have applied, and a label of a user.
var tracked = map[string]string{
	"app.kubernetes.io/instance": "release", "argocd.argoproj.io/instance": "shop", "kustomize.toolkit.fluxcd.io/name": "shop",
	"kapp.k14s.io/app": "1", "team": "storefront",
}

// ownLabels are all labels of a claim.
var ownLabels = map[string]string{"app.kubernetes.io/name": "database", "app.kubernetes.io/managed-by": "windlass"}

func withTrackedLabels(db *v1alpha1.Database) { db.Labels = maps.Clone(tracked) }

func TestTheClaimBearsNoLabelOfTheDatabase(t *testing.T) {
	w := newWorld(t, example(withTrackedLabels))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "labels of the claim", ownLabels, w.claim().Labels)
}

// TestAnExistingClaimLosesTheLabelsOfTheDatabase has claims of earlier operator versions.
func TestAnExistingClaimLosesTheLabelsOfTheDatabase(t *testing.T) {
	asBefore := maps.Clone(tracked)
	maps.Copy(asBefore, selectorOf(example()))
	for name, c := range map[string]struct {
		record func(was string) string
		others map[string]string
		want   map[string]string
	}{
		"that its record tells of":                               {record: asRecorded(t, asBefore), want: ownLabels},
		"but keeps a label that somebody else has given it":      {record: asRecorded(t, asBefore), others: map[string]string{"backup": "daily"}, want: with(ownLabels, "backup", "daily")},
		"and every other label, if its record is broken":         {record: func(string) string { return "{" }, want: ownLabels},
		"and every other label, if somebody has taken that away": {record: func(string) string { return "" }, others: map[string]string{"backup": "daily"}, want: ownLabels},
	} {
		t.Run(name, func(t *testing.T) {
			w := up(t)
			w.change(withTrackedLabels)
			claim := w.claim()
			claim.Labels = maps.Clone(asBefore)
			maps.Copy(claim.Labels, c.others)
			claim.Annotations[children.RecordAnnotation] = c.record(claim.Annotations[children.RecordAnnotation])
			w.update("persistentvolumeclaims", claim)
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "labels of the claim", c.want, w.claim().Labels)
			before := len(w.journal.Writes())
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "writes at rest", nil, w.journal.Writes()[before:])
		})
	}
}

func with(labels map[string]string, key, value string) map[string]string {
	labels = maps.Clone(labels)
	labels[key] = value
	return labels
}

// asRecorded returns a function that sets the labels in a record.
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
		return strings.ReplaceAll(string(text), `"creationTimestamp":null,`, "")
	}
}

func TestTheImageOfADatabase(t *testing.T) {
	for name, c := range map[string]struct{ flag, spec, want string }{
		"is Docker's":                       {want: "postgres:17"},
		"is from the registry of the flag":  {flag: "registry.example.com:5000/library/postgres", want: "registry.example.com:5000/library/postgres:17"},
		"is the spec's, whatever flag says": {flag: "mirror/postgres", spec: "postgres@sha256:0123", want: "postgres@sha256:0123"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(func(db *v1alpha1.Database) { db.Spec.Image = c.spec }))
			pipeline := w.fill()
			if c.flag != "" {
				pipeline.Reconciler.(*reconciler).image = c.flag
			}
			if _, err := pipeline.Sync(t.Context(), controller.Key{Namespace: "default", Name: "shop"}); err != nil {
				t.Fatal(err)
			}
			set, err := w.kube.AppsV1().StatefulSets("default").Get(t.Context(), "shop", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "image", c.want, set.Spec.Template.Spec.Containers[0].Image)
		})
	}
}
