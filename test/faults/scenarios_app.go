package faults

import (
	"encoding/json"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/world"
)

const windlass = v1alpha1.GroupName

var apps = kind[v1alpha1.AppSpec]{
	name: "app", resource: "apps", everything: world.EverythingOfApp, changes: world.ChangesOfApp, refers: refersOfApp,
	left:   []string{"deployments/shop", "services/shop", "ingresses/shop"},
	prunes: []string{"ingress", "autoscaling", "config", "replicas"},
	object: func(_ *user, spec v1alpha1.AppSpec) metav1.Object {
		return &v1alpha1.App{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: spec}
	},
}

// refersOfApp makes what world.EverythingOfApp refers to.
func refersOfApp(u *user) {
	paymentOfApp(u)
	credentialsOfApp(u)
	settingsOfApp(u)
}

func paymentOfApp(u *user) {
	u.create("", "secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "payment"}, StringData: map[string]string{"key": "x"}})
}

func credentialsOfApp(u *user) {
	u.create("", "secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "shop-credentials"}, StringData: map[string]string{"uri": "x"}})
}

func settingsOfApp(u *user) {
	u.create("", "configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"A": "a"}})
}

// appScenarios are those of every kind, and what is an App's alone.
func appScenarios() []scenario {
	scale := func(u *user) {
		u.change(windlass, "apps", "shop", map[string]any{"spec": map[string]any{"replicas": 5, "autoscaling": nil}})
	}
	return append(apps.scenarios(), apps.drifted(),
		scenario{name: "app-scale", setUp: []step{apps.but(func(s *v1alpha1.AppSpec) { s.Autoscaling = nil }).create}, steps: []step{scale}},
		scenario{name: "app-again-at-once", setUp: []step{apps.create}, steps: []step{func(u *user) { apps.delete(u); apps.recreate(u) }}},
		scenario{name: "app-taken", setUp: []step{func(u *user) {
			u.create("", "configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Data: map[string]string{"theirs": "yes"}})
		}}, steps: []step{apps.create}, foreign: []string{"configmaps/shop"}},
		scenario{name: "app-secret", setUp: []step{apps.create}, steps: []step{func(u *user) {
			u.change("", "secrets", "payment", map[string]any{"stringData": map[string]any{"key": "y"}})
		}}, after: []step{podsAreReplaced}},
		scenario{name: "app-robbed", setUp: []step{apps.create}, steps: []step{robbed}},
		scenario{name: "app-extended", setUp: []step{apps.create, extend}, steps: []step{deflect}, after: []step{extend}, fresh: []step{apps.create, extend}},
		scenario{name: "app-missing", setUp: []step{apps.recreate}, steps: []step{paymentOfApp, credentialsOfApp, settingsOfApp}},
	)
}

// robbed deletes a child, and what is made in its place too. A cache that was told of
// neither holds what it did before: that there is none.
func robbed(u *user) {
	u.delete("", "services", "shop")
	wait(untilMadeAgain)(u)
	if !u.run.has("services/shop") { // as long as the cache is held back
		u.run.settle()
	}
	u.delete("", "services", "shop")
}

// untilMadeAgain is when something has been made again, even if that was refused once as
// invalid.
const untilMadeAgain = 6 * time.Minute

// extend adds to a list of a child, which is the user's business.
func extend(u *user) {
	u.change("", "services", "shop", map[string]any{"spec": map[string]any{"ports": []corev1.ServicePort{
		{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}, {Name: "debug", Port: 6060},
	}}})
}

// deflect changes of the same child what is the operator's.
func deflect(u *user) {
	u.change("", "services", "shop", map[string]any{"spec": map[string]any{"selector": map[string]any{"app.kubernetes.io/instance": "another"}}})
}

// podsAreReplaced checks that there were Pods of two sorts. Their digests are not compared
// with those of another run, as they are keyed with UIDs.
func podsAreReplaced(u *user) {
	templates := map[string]bool{}
	for _, e := range u.run.history.all(newestVersion) {
		var d appsv1.Deployment
		if u.run.fullName(e.object) == "deployments/shop" && json.Unmarshal(e.raw, &d) == nil {
			templates[d.Spec.Template.String()] = true
		}
	}
	if len(templates) < 2 {
		u.run.violate("the Pods are those from before the Secret was changed")
	}
}
