//go:build integration

package integration

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestAppYieldsToAutoscalerOfOthers creates a HorizontalPodAutoscaler for the Deployment of an App. The
// HorizontalPodAutoscaler controller scales the Deployment to the minimum. The test then scales the Deployment further,
// as the controller does under load, and follows the advice in the status of the App.
func TestAppYieldsToAutoscalerOfOthers(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	spec := smallest()
	spec.Replicas = ptr.To[int32](3)
	shared.CreateApp(t, namespace, "shop", spec)
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
	if _, err := shared.Kubectl(t.Context(), "", "autoscale", "deployment/shop", "-n", namespace, "--name=theirs",
		"--min=5", "--max=9", "--cpu=80%"); err != nil {
		t.Fatal(err)
	}
	scaled := func(replicas int32) *v1alpha1.App {
		t.Helper()
		what := strconv.Itoa(int(replicas)) + " Pods, set by the autoscaler"
		return shared.AppWith(t, namespace, "shop", what, func(app *v1alpha1.App) bool {
			return app.Status.Phase == v1alpha1.AppReady && app.Status.Replicas == replicas &&
				strings.Contains(message(app), "HorizontalPodAutoscaler theirs")
		})
	}
	app := scaled(5)
	writes := deploymentWrites(t, namespace)
	for _, replicas := range []int32{6, 9, 5, 7} {
		scaleDeployment(t, namespace, replicas)
		scaled(replicas)
	}
	if after := deploymentWrites(t, namespace); len(after) > len(writes) {
		t.Errorf("while the autoscaler scaled the Deployment, the operator sent %q", after[len(writes):])
	}

	before := podsOf(t, namespace)
	if _, err := shared.Kubectl(t.Context(), "", "scale", "app/shop", "-n", namespace, "--replicas=7"); err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile(`\{.*\}`).FindString(message(app))
	patch := `{"spec":{"scaleTargetRef":` + target + `}}`
	_, err := shared.Kubectl(t.Context(), "", "patch", "hpa", "theirs", "-n", namespace, "--type=merge", "-p", patch)
	if err != nil {
		t.Fatal(err)
	}
	shared.AppWith(t, namespace, "shop", "7 Pods, set on the App", func(app *v1alpha1.App) bool {
		return app.Status.Phase == v1alpha1.AppReady && app.Status.Replicas == 7 && !strings.Contains(message(app), "theirs")
	})
	if after := podsOf(t, namespace); !slices.Equal(before, after) {
		t.Errorf("the advice replaced the Pods %q by %q", before, after)
	}
	scaleDeployment(t, namespace, 2)
	framework.Eventually(t, "the operator to change the number of replicas back", func(ctx context.Context) (bool, error) {
		deployment, err := shared.Kube.AppsV1().Deployments(namespace).Get(ctx, "shop", metav1.GetOptions{})
		return err == nil && *deployment.Spec.Replicas == 7, err
	})
}

// podsOf returns the sorted UIDs of the Pods of App shop.
func podsOf(t *testing.T, namespace string) []string {
	t.Helper()
	pods, err := shared.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{
		LabelSelector: "windlass.dev/app=shop",
	})
	if err != nil {
		t.Fatal(err)
	}
	var uids []string
	for i := range pods.Items {
		uids = append(uids, string(pods.Items[i].UID))
	}
	slices.Sort(uids)
	return uids
}

// deploymentWrites returns the operator's writes of Deployments in a namespace.
func deploymentWrites(t *testing.T, namespace string) []string {
	t.Helper()
	return slices.DeleteFunc(requests(t, namespace), func(r string) bool {
		return strings.HasPrefix(r, "get ") || !strings.Contains(r, " deployments ")
	})
}

// scaleDeployment sets the number of replicas of Deployment shop.
func scaleDeployment(t *testing.T, namespace string, replicas int32) {
	t.Helper()
	count := strconv.Itoa(int(replicas))
	_, err := shared.Kubectl(t.Context(), "", "scale", "deployment/shop", "-n", namespace, "--replicas", count)
	if err != nil {
		t.Fatal(err)
	}
}
