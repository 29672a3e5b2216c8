package faults

import (
	"encoding/json"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

const windlass = v1alpha1.GroupName

var apps = kind[v1alpha1.AppSpec]{
	name: "app", resource: "apps", fullSpec: everythingButRun, changes: changesButRun(),
	createReferences: createAppReferences,
	orphaned:         []string{"deployments/shop", "services/shop", "ingresses/shop"},
	pruningFields:    []string{"ingress", "autoscaling", "config", "replicas"},
	object: func(_ *user, spec v1alpha1.AppSpec) metav1.Object {
		return &v1alpha1.App{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: spec}
	},
}

// everythingButRun returns a full spec without beforeRollout and route. rolloutScenarios cover beforeRollout. The API
// server of these tests lacks the kinds of routes.
func everythingButRun() v1alpha1.AppSpec {
	spec := framework.EverythingOfApp()
	spec.BeforeRollout, spec.Route = nil, nil
	return spec
}

// changesButRun returns the changes of all fields except beforeRollout and route. If beforeRollout is added to an App,
// the App runs no command for a template that is already rolled out. It therefore differs from an App that was created
// with beforeRollout.
func changesButRun() map[string][]func(*v1alpha1.AppSpec) {
	changes := maps.Clone(framework.ChangesOfApp)
	delete(changes, "beforeRollout")
	delete(changes, "route")
	return changes
}

// createAppReferences creates the objects that framework.EverythingOfApp refers to.
func createAppReferences(u *user) {
	createPaymentSecret(u)
	createCredentialsSecret(u)
	createSettingsConfigMap(u)
}

func createPaymentSecret(u *user) {
	u.create("", "secrets", &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "payment"}, StringData: map[string]string{"key": "x"},
	})
}

func createCredentialsSecret(u *user) {
	u.create("", "secrets", &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-credentials"}, StringData: map[string]string{"uri": "x"},
	})
}

func createSettingsConfigMap(u *user) {
	u.create("", "configmaps", &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"A": "a"},
	})
}

// appScenarios returns kind.scenarios for App, and scenarios that only App has.
func appScenarios() []scenario {
	scale := func(u *user) {
		u.patch(windlass, "apps", "shop", map[string]any{"spec": map[string]any{"replicas": 5, "autoscaling": nil}})
	}
	withClaim := func(policy v1alpha1.DeletionPolicy) kind[v1alpha1.AppSpec] {
		return apps.with(func(s *v1alpha1.AppSpec) {
			claim := &v1alpha1.AppClaim{Size: apiresource.MustParse("1Gi"), DeletionPolicy: policy}
			s.Volumes = append(s.Volumes, v1alpha1.AppVolume{Name: "data", MountPath: "/data", Claim: claim})
		})
	}
	deleting, retained := withClaim(v1alpha1.DeletionDelete), withClaim(v1alpha1.DeletionRetain)
	return append(append(apps.scenarios(), rolloutScenarios()...), apps.driftScenario(),
		scenario{
			name: "app-volume-delete", setUp: []step{deleting.create}, steps: []step{deleting.delete}, check: leavesOnly(),
		},
		scenario{
			name: "app-volume-retained", setUp: []step{retained.create}, steps: []step{
				retained.delete,
			}, check: leavesOnly("persistentvolumeclaims/shop-data"),
		},
		scenario{
			name: "app-scale", setUp: []step{
				apps.with(func(s *v1alpha1.AppSpec) { s.Autoscaling = nil }).create,
			}, steps: []step{scale},
		},
		scenario{
			name: "app-again-at-once", setUp: []step{apps.create}, steps: []step{
				func(u *user) { apps.delete(u); apps.createObject(u) },
			},
		},
		scenario{name: "app-taken", setUp: []step{func(u *user) {
			u.create("", "configmaps", &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: framework.ConfigOfEverything}, Data: map[string]string{"theirs": "yes"},
			})
		}}, steps: []step{apps.create}, foreign: []string{"configmaps/" + framework.ConfigOfEverything}},
		scenario{name: "app-secret", setUp: []step{apps.create}, steps: []step{func(u *user) {
			u.patch("", "secrets", "payment", map[string]any{"stringData": map[string]any{"key": "y"}})
		}}, after: []step{checkPodsReplaced}},
		scenario{name: "app-robbed", setUp: []step{apps.create}, steps: []step{deleteServiceTwice}},
		scenario{
			name: "app-extended", setUp: []step{apps.create, addServicePort}, steps: []step{changeServiceSelector},
			after: []step{addServicePort}, freshSteps: []step{apps.create, addServicePort},
		},
		scenario{
			name: "app-missing", setUp: []step{apps.createObject}, steps: []step{
				createPaymentSecret, createCredentialsSecret, createSettingsConfigMap,
			},
		},
	)
}

// deleteServiceTwice deletes the Service of an App, and deletes it again after the operator has created it again. A
// cache that observes neither the creation nor the second deletion does not change: it has no Service.
func deleteServiceTwice(u *user) {
	u.delete("", "services", "shop")
	wait(recreationDelay)(u)
	if !u.run.hasObject("services/shop") { // with a frozen cache, the operator creates the Service only at rest
		u.run.awaitRest()
	}
	u.delete("", "services", "shop")
}

// recreationDelay is long enough to create a child again, even if the API server rejects the first request as invalid.
const recreationDelay = 6 * time.Minute

// addServicePort adds a port to the Service, as users may do.
func addServicePort(u *user) {
	u.patch("", "services", "shop", map[string]any{"spec": map[string]any{"ports": []corev1.ServicePort{
		{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}, {Name: "debug", Port: 6060},
	}}})
}

// changeServiceSelector changes the selector of the Service, which the operator sets.
func changeServiceSelector(u *user) {
	u.patch("", "services", "shop", map[string]any{
		"spec": map[string]any{"selector": map[string]any{"app.kubernetes.io/instance": "another"}},
	})
}

// checkPodsReplaced checks that the Pod template of the Deployment has changed during the run. The digests in the
// templates of two runs cannot be compared, because they are keyed with UIDs.
func checkPodsReplaced(u *user) {
	templates := map[string]bool{}
	for _, e := range u.run.history.eventsUntil(newestVersion) {
		var d appsv1.Deployment
		if u.run.fullName(e.object) == "deployments/shop" && json.Unmarshal(e.raw, &d) == nil {
			templates[d.Spec.Template.String()] = true
		}
	}
	if len(templates) < 2 {
		u.run.addViolation("the Pods were not replaced after a Secret changed")
	}
}
