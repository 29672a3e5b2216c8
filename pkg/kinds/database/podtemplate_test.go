package database

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// statefulSetOf returns the desired StatefulSet of a Database with a valid podTemplate.
func statefulSetOf(db *v1alpha1.Database) *appsv1.StatefulSet {
	template, _ := desiredTemplate(db, DefaultImage, nil)
	return desiredStatefulSet(db, template)
}

// withPodTemplate returns a change that sets podTemplate to this JSON, which is valid.
func withPodTemplate(text string) func(*v1alpha1.Database) {
	return func(db *v1alpha1.Database) {
		db.Spec.PodTemplate = &cnatv1.PodTemplate{}
		_ = json.Unmarshal([]byte(text), db.Spec.PodTemplate)
	}
}

func TestPodTemplateOfDatabaseIsMerged(t *testing.T) {
	f := readyFixture(t, withPodTemplate(`{
		"metadata": {"labels": {"team": "shop"}},
		"spec": {
			"serviceAccountName": "scc", "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "db", "operator": "Exists"}],
			"containers": [
				{"name": "postgresql", "env": [{"name": "TZ", "value": "UTC"}]}, {"name": "exporter", "image": "exporter:1"}
			]
		}}`))
	template := f.statefulSet().Spec.Template
	controllertest.Equal(t, "label", "shop", template.Labels["team"])
	controllertest.Equal(t, "service account", "scc", template.Spec.ServiceAccountName)
	controllertest.Equal(t, "nodeSelector", map[string]string{"disk": "ssd"}, template.Spec.NodeSelector)
	controllertest.Equal(t, "tolerations", []corev1.Toleration{{Key: "db", Operator: corev1.TolerationOpExists}},
		template.Spec.Tolerations)
	controllertest.Equal(t, "containers", 2, len(template.Spec.Containers))
	controllertest.Equal(t, "writes at rest", nil, f.Reconcile().Writes)
	f.Change(func(db *v1alpha1.Database) { db.Spec.PodTemplate = nil })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	wanted := statefulSetOf(example()).Spec.Template
	controllertest.Equal(t, "template without podTemplate", wanted, f.statefulSet().Spec.Template)
}

func TestPodTemplateMustNotChangeWhatPostgreSQLNeeds(t *testing.T) {
	const own = `spec.podTemplate.spec.containers[name=postgresql]`
	const needed = ` must not be changed, because the operator needs it`
	for name, c := range map[string]struct{ over, err string }{
		"image":   {`"image": "mine:1"`, own + `.image must not be set: set image in the spec instead`},
		"command": {`"command": ["sh"]`, own + `.command` + needed},
		"args":    {`"args": ["-c"]`, own + `.args` + needed},
		"resources": {
			`"resources": {"requests": {"cpu": "1"}}`, own + `.resources must not be set: set resources in the spec instead`,
		},
		"a generated variable": {`"env": [{"name": "PGDATA", "value": "/tmp"}]`, own + `.env[name=PGDATA]` + needed},
		"a generated mount": {
			`"volumeMounts": [{"mountPath": "/var/lib/postgresql/data", "$patch": "delete"}]`,
			own + `.volumeMounts[name=data]` + needed,
		},
		"the startup probe":   {`"startupProbe": {"periodSeconds": 60}`, own + `.startupProbe` + needed},
		"the readiness probe": {`"readinessProbe": {"periodSeconds": 60}`, own + `.readinessProbe` + needed},
		"the liveness probe":  {`"livenessProbe": {"$patch": "delete"}`, own + `.livenessProbe` + needed},
		"the preStop hook":    {`"lifecycle": {"$patch": "delete"}`, own + `.lifecycle` + needed},
	} {
		t.Run(name, func(t *testing.T) {
			over := withPodTemplate(`{"spec": {"containers": [{"name": "postgresql", ` + c.over + `}]}}`)
			_, err := desiredTemplate(example(over), DefaultImage, nil)
			controllertest.ErrorContains(t, c.err, err)
		})
	}
}

func TestInvalidPodTemplateKeepsPreviousTemplate(t *testing.T) {
	f := readyFixture(t, withPodTemplate(`{"spec": {"nodeSelector": {"disk": "ssd"}}}`))
	before, revision := f.statefulSet(), f.revision()
	f.Change(withPodTemplate(`{"spec": {"nodeSelektor": {}}}`))
	f.Change(func(db *v1alpha1.Database) {
		db.Spec.Image = "postgres:17.7"
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"}
	})
	controllertest.ErrorContains(t, "nodeSelektor", f.Reconcile().Err)
	controllertest.Equal(t, "StatefulSet", before.Spec, f.statefulSet().Spec)
	controllertest.Equal(t, "reason", "InvalidPodTemplate", f.reason())
	controllertest.Equal(t, "the settings have changed", true, revision != f.revision())
	f.changeStatefulSet(func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](0) })
	controllertest.ErrorContains(t, "nodeSelektor", f.Reconcile().Err)
	controllertest.Equal(t, "replicas after drift", 1, *f.statefulSet().Spec.Replicas)
	f.Change(func(db *v1alpha1.Database) { db.Annotations = map[string]string{restartAnnotation: "now"} })
	controllertest.ErrorContains(t, "nodeSelektor", f.Reconcile().Err)
	restarted := f.statefulSet().Spec.Template
	controllertest.Equal(t, "a restart is requested", true, restarted.Annotations[restartAnnotation] != "")
	controllertest.Equal(t, "Pod spec", before.Spec.Template.Spec, restarted.Spec)
	f.Change(func(db *v1alpha1.Database) { db.Spec.PodTemplate = nil })
	f.Reconcile()
	f.start()
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "phase", v1alpha1.DatabaseReady, f.Object().Status.Phase)
	controllertest.Equal(t, "image", "postgres:17.7", f.statefulSet().Spec.Template.Spec.Containers[0].Image)
}

func TestInvalidPodTemplateDoesNotDelayRotation(t *testing.T) {
	f, server, _ := rotating(t)
	server.rejectsNext, server.old = true, true
	f.Change(withPodTemplate(`{"spec": {"nodeSelektor": {}}}`))
	r := f.Reconcile()
	controllertest.ErrorContains(t, "nodeSelektor", r.Err)
	controllertest.Equal(t, "next reconcile", lookAgain, controllertest.RetryAfter(t, r.Result, r.Err))
	server.rejectsNext, server.old = false, false
	controllertest.ErrorContains(t, "nodeSelektor", f.Reconcile().Err)
	controllertest.Equal(t, "logins", "app-login1: app=Password app-login1=Password app-login2=None", f.loginsOf())
}

func TestInvalidPodTemplateOfNewDatabaseCreatesNothing(t *testing.T) {
	f := newFixture(t, example(withPodTemplate(`{"spec": {"nodeSelektor": {}}}`)))
	r := f.Reconcile()
	controllertest.ErrorContains(t, "nodeSelektor", r.Err)
	controllertest.Equal(t, "writes", []string{updateStatus}, r.Writes)
	controllertest.Equal(t, "phase", v1alpha1.DatabaseFailed, f.Object().Status.Phase)
}

// TestForeignStatefulSetStaysWhilePodTemplateIsInvalid has a StatefulSet of a previous Database, which was orphaned.
func TestForeignStatefulSetStaysWhilePodTemplateIsInvalid(t *testing.T) {
	f := readyFixture(t)
	f.changeStatefulSet(func(s *appsv1.StatefulSet) {
		s.OwnerReferences, s.Annotations = nil, nil
	})
	f.Change(withPodTemplate(`{"spec": {"nodeSelektor": {}}}`))
	r := f.Reconcile()
	controllertest.ErrorContains(t, "nodeSelektor", r.Err)
	controllertest.Equal(t, "writes", []string{updateStatus}, r.Writes)
}

// rejectTemplates makes the API server reject each StatefulSet with restartPolicy Never.
func (f fixture) rejectTemplates() {
	f.Kube.PrependReactor("patch", "statefulsets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if !strings.Contains(string(a.(clienttesting.PatchAction).GetPatch()), `"restartPolicy":"Never"`) {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "statefulsets"}, "shop", errors.New("no"))
	})
}

func TestRejectedStatefulSetDoesNotStopOtherSteps(t *testing.T) {
	f := readyFixture(t)
	before, revision := f.statefulSet(), f.revision()
	f.rejectTemplates()
	f.Change(withPodTemplate(`{"spec": {"restartPolicy": "Never"}}`))
	f.Change(func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"}
	})
	r := f.Reconcile()
	controllertest.ErrorContains(t, "forbidden: no", r.Err)
	controllertest.Equal(t, "next reconcile", pods.ShortestRejection, controllertest.RetryAfter(t, r.Result, r.Err))
	controllertest.Equal(t, "StatefulSet", before.Spec, f.statefulSet().Spec)
	controllertest.Equal(t, "reason", "Forbidden", f.reason())
	controllertest.Equal(t, "the settings have changed", true, revision != f.revision())
	controllertest.Equal(t, "binding", "shop-credentials", f.Object().Status.Binding.Name)
	f.Reconcile()
	controllertest.Equal(t, "writes while the retry is not due", nil, f.Reconcile().Writes)
	f.Change(func(db *v1alpha1.Database) { db.Annotations = map[string]string{restartAnnotation: "now"} })
	controllertest.ErrorContains(t, "forbidden: no", f.Reconcile().Err)
	restarted := f.statefulSet().Spec.Template
	controllertest.Equal(t, "a restart is requested", true, restarted.Annotations[restartAnnotation] != "")
	f.Change(func(db *v1alpha1.Database) { db.Spec.PodTemplate = nil })
	f.Reconcile()
	f.start()
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "phase", v1alpha1.DatabaseReady, f.Object().Status.Phase)
}

// TestStatefulSetWithoutRecordStaysWhilePodTemplateIsInvalid has a StatefulSet whose record somebody has removed.
func TestStatefulSetWithoutRecordStaysWhilePodTemplateIsInvalid(t *testing.T) {
	f := readyFixture(t)
	f.changeStatefulSet(func(s *appsv1.StatefulSet) { s.Annotations = nil })
	before, revision := f.statefulSet(), f.revision()
	f.Change(withPodTemplate(`{"spec": {"nodeSelektor": {}}}`))
	f.Change(func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"}
	})
	controllertest.ErrorContains(t, "nodeSelektor", f.Reconcile().Err)
	controllertest.Equal(t, "StatefulSet", before, f.statefulSet())
	controllertest.Equal(t, "the settings have changed", true, revision != f.revision())
}

func TestEmptyPodTemplateChangesNothing(t *testing.T) {
	for _, text := range []string{`{}`, `{"spec": {}}`, `{"metadata": {"labels": {}}}`} {
		controllertest.Equal(t, "template with podTemplate "+text, statefulSetOf(example()).Spec.Template,
			statefulSetOf(example(withPodTemplate(text))).Spec.Template)
	}
}

// TestServiceAccountHasBothFields sets both fields of the service account: the API server copies one to the other.
func TestServiceAccountHasBothFields(t *testing.T) {
	for _, text := range []string{`{"spec": {"serviceAccountName": "a"}}`, `{"spec": {"serviceAccount": "a"}}`} {
		pod := statefulSetOf(example(withPodTemplate(text))).Spec.Template.Spec
		controllertest.Equal(t, "fields", "a a", pod.ServiceAccountName+" "+pod.DeprecatedServiceAccount)
	}
}

func TestChangeOfPodTemplateWaitsWithPolicyManual(t *testing.T) {
	f := readyFixture(t, func(db *v1alpha1.Database) { db.Spec.UpdatePolicy = v1alpha1.UpdateManual })
	before := f.statefulSet().Spec.Template
	f.Change(withPodTemplate(`{"spec": {"nodeSelector": {"disk": "ssd"}}}`))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "template", before, f.statefulSet().Spec.Template)
	controllertest.Equal(t, "pending", []string{fieldPodTemplate}, f.Object().Status.PendingRestart)
	f.Change(func(db *v1alpha1.Database) { db.Annotations = map[string]string{restartAnnotation: "now"} })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	after := f.statefulSet().Spec.Template.Spec
	controllertest.Equal(t, "nodeSelector", map[string]string{"disk": "ssd"}, after.NodeSelector)
	controllertest.Equal(t, "pending after the restart", nil, f.Object().Status.PendingRestart)
}
