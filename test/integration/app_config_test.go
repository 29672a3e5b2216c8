//go:build integration

package integration

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestPreviousFilesOfAppStayUntilNoReplicaSetNamesThem changes the files of an App twice. Before the second change, the
// Deployment keeps no previous ReplicaSets any more.
func TestPreviousFilesOfAppStayUntilNoReplicaSetNamesThem(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	ofApp := metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=shop"}
	files := func(ctx context.Context) (texts []string, err error) {
		all, err := shared.Kube.CoreV1().ConfigMaps(namespace).List(ctx, ofApp)
		if err != nil {
			return nil, err
		}
		for _, config := range all.Items {
			texts = append(texts, config.Data["a"])
		}
		slices.Sort(texts)
		return texts, nil
	}
	spec := framework.ProbedApp("shop:1")
	spec.Config = map[string]string{"a": "1"}
	shared.CreateApp(t, namespace, "shop", spec)
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
	change := func(text string) {
		t.Helper()
		shared.UpdateApp(t, namespace, "shop", func(app *v1alpha1.App) { app.Spec.Config = map[string]string{"a": text} })
		shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
	}
	change("2")
	if got, err := files(t.Context()); err != nil || !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("the App has the files %q (%v), want the files of both releases", got, err)
	}
	_, err := shared.Kubectl(t.Context(), "", "patch", "deployment", "shop", "-n", namespace, "-p",
		`{"spec":{"revisionHistoryLimit":0}}`)
	if err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the previous ReplicaSet to be deleted", func(ctx context.Context) (bool, error) {
		sets, err := shared.Kube.AppsV1().ReplicaSets(namespace).List(ctx, ofApp)
		return err == nil && len(sets.Items) == 1, err
	})
	change("3")
	framework.Eventually(t, "the files without a ReplicaSet to be deleted", func(ctx context.Context) (bool, error) {
		got, err := files(ctx)
		return !slices.Contains(got, "1") && slices.Contains(got, "3"), err
	})
}
