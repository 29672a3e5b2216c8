package database

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
	"windlass.dev/windlass/pkg/postgresql"
)

// backupSecretOf returns the stored Secret of the backup, or nil.
func (f fixture) backupSecretOf() *corev1.Secret {
	return kindtest.Get[*corev1.Secret](f.Cluster, "default", "shop-backup")
}

func (f fixture) backupDeployment() *appsv1.Deployment {
	return kindtest.Get[*appsv1.Deployment](f.Cluster, "default", "shop-backup")
}

// backedUp returns the condition BackedUp. It is empty if the Database has none.
func (f fixture) backedUp() metav1.Condition {
	return ptr.Deref(conditions.Find(f.Object().Status.Conditions, conditionBackedUp), metav1.Condition{})
}

func TestBackupTurnedOnAndOffRestartsNothing(t *testing.T) {
	f, _ := running(t)
	template := f.statefulSet().Spec.Template
	f.Change(func(db *v1alpha1.Database) { db.Generation++; withBackup(db) })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	secret, deployment := f.backupSecretOf(), f.backupDeployment()
	password := string(secret.Data[keyBackupPassword])
	controllertest.Equal(t, "password in the settings", password, string(f.settings().Data[keyReplication]))
	controllertest.Equal(t, "CA of the backup", string(f.certificate().Data["ca.crt"]), string(secret.Data["ca.crt"]))
	controllertest.Equal(t, "strategy", appsv1.RecreateDeploymentStrategyType, deployment.Spec.Strategy.Type)
	controllertest.Equal(t, "template of the server", template, f.statefulSet().Spec.Template)
	for key, value := range f.statefulSet().Spec.Selector.MatchLabels {
		if key == nameLabel && deployment.Spec.Template.Labels[key] == value {
			t.Error("the Service selects the Pod of the backup")
		}
	}
	text := fmt.Sprint(deployment.Spec.Template.Spec)
	if strings.Contains(text, password) {
		t.Error("the password is in the Pod template")
	}

	f.Change(func(db *v1alpha1.Database) { db.Generation++; db.Spec.Backup = nil })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	if f.backupSecretOf() != nil || f.backupDeployment() != nil || f.settings().Data[keyReplication] != nil {
		t.Error("something of the backup is left")
	}
	if kindtest.Get[*corev1.PersistentVolumeClaim](f.Cluster, "default", "shop-backup") == nil {
		t.Error("the claim with the backups was deleted")
	}
	controllertest.Equal(t, "template of the server", template, f.statefulSet().Spec.Template)
}

func TestBackupIsRequestedWhenDue(t *testing.T) {
	f, _ := running(t, withBackup)
	request := func() string { return string(f.backupSecretOf().Data[keyBackupRequest]) }
	reconcile := func() {
		t.Helper()
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
	}
	first := request()
	reconcile()
	controllertest.Equal(t, "request at rest", first, request())
	f.Clock.Step(24 * time.Hour)
	reconcile()
	second := request()
	if second == first {
		t.Error("no base backup was requested after a day")
	}
	reconcile()
	controllertest.Equal(t, "request after the scheduled one", second, request())
	annotate := func(value string) func(*v1alpha1.Database) {
		return func(db *v1alpha1.Database) { db.Annotations = map[string]string{backupAnnotation: value} }
	}
	f.Clock.Step(time.Minute)
	f.Change(annotate("before the migration"))
	reconcile()
	third := request()
	if third == second {
		t.Error("the annotation requested no base backup")
	}
	f.Clock.Step(time.Minute)
	reconcile()
	controllertest.Equal(t, "request at rest", third, request())
	f.Change(annotate(""))
	reconcile()
	controllertest.Equal(t, "request after the annotation was removed", third, request())
	kindtest.Change(f.Cluster, "default", "shop-backup", func(s *corev1.Secret) {
		s.Data[keyBackupRequest] = []byte("zzzzzzz")
	})
	reconcile()
	if request() == "zzzzzzz" {
		t.Error("a request in the future stays")
	}
	f.Change(func(db *v1alpha1.Database) { db.Generation++; db.Spec.Backup.Schedule = "0 0 30 2 *" })
	f.Clock.Step(1000 * time.Hour)
	last := request()
	reconcile()
	controllertest.Equal(t, "request of a schedule without a date", last, request())
}

func TestBackedUpSaysWhatCanBeRestored(t *testing.T) {
	const newest, oldest = 1796000000, 1795000000
	report := func(count, level int, problem string) string {
		return fmt.Sprintf("windlass 1 %d %d %d %d abc %s", newest, oldest, count, level, problem)
	}
	forbidden := apierrors.NewForbidden(corev1.Resource("deployments"), "shop-backup", fmt.Errorf("exceeded quota"))
	at := func(position int64) *int64 { return &position }
	for name, c := range map[string]struct {
		change    func(*v1alpha1.Database)
		first     postgresql.Backup // read before seen, and two minutes earlier
		seen      postgresql.Backup
		err       error
		rejection error
		status    metav1.ConditionStatus
		reason    string
		message   string
		until     bool // whether the status has recoverableUntil
	}{
		"a backup that streams": {
			seen:   postgresql.Backup{Report: report(2, 0, "-"), Written: 100, Stored: at(100)},
			status: metav1.ConditionTrue, reason: "Streaming", message: "to any time since 2026-11-18T11:06:40Z",
		},
		"a backup that is a moment behind": {
			first:  postgresql.Backup{Report: report(2, 0, "-"), Written: 100, Stored: at(90)},
			seen:   postgresql.Backup{Report: report(2, 0, "-"), Written: 200, Stored: at(150)},
			status: metav1.ConditionFalse, reason: "BackupInterrupted", until: true,
		},
		"a backup without a base backup": {
			seen:   postgresql.Backup{Report: "windlass 1 0 0 0 0 - -", Written: 100, Stored: at(100)},
			status: metav1.ConditionFalse, reason: "BackupStarting", message: "kubectl logs -n default deploy/shop-backup",
		},
		"a backup that does not stream": {
			first:  postgresql.Backup{Report: report(2, 0, "-"), Written: 100, Stored: at(100)},
			seen:   postgresql.Backup{Written: 100},
			status: metav1.ConditionFalse, reason: "BackupInterrupted", until: true,
		},
		"a backup whose volume is full": {
			seen:   postgresql.Backup{Report: report(2, 100, "full"), Written: 100, Stored: at(100)},
			status: metav1.ConditionFalse, reason: "BackupVolumeFull", message: "above 1Gi",
		},
		"a backup whose volume is nearly full": {
			seen:   postgresql.Backup{Report: report(2, 90, "-"), Written: 100, Stored: at(100)},
			status: metav1.ConditionTrue, reason: "BackupVolumeFilling", message: "at least 90 %",
		},
		"a server that was replaced": {
			seen:   postgresql.Backup{Report: report(2, 0, "other"), Written: 100},
			status: metav1.ConditionFalse, reason: "ServerReplaced", message: "windlass.dev/backup=$(date +%s)", until: true,
		},
		"a base backup that failed": {
			seen:   postgresql.Backup{Report: report(2, 0, "base"), Written: 100, Stored: at(100)},
			status: metav1.ConditionFalse, reason: "BaseBackupFailed",
		},
		"a server with tablespaces": {
			seen:   postgresql.Backup{Report: report(2, 0, "spaces"), Written: 100, Stored: at(100)},
			status: metav1.ConditionFalse, reason: "TablespacesNotBackedUp",
		},
		"a server to which the operator cannot connect": {
			err:    postgresql.NewError(postgresql.Silent, "no response"),
			status: metav1.ConditionUnknown, reason: "BackupNotObserved", message: "connect to Pod shop-0",
		},
		"an invalid podTemplate": {
			change: func(db *v1alpha1.Database) {
				db.Spec.Backup.PodTemplate = &cnatv1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(`{"nodeName":7}`)}}
			},
			seen:   postgresql.Backup{Report: report(2, 0, "-"), Written: 100, Stored: at(100)},
			status: metav1.ConditionFalse, reason: "InvalidPodTemplate", message: "spec.backup.podTemplate",
		},
		"an invalid schedule": {
			change: func(db *v1alpha1.Database) { db.Spec.Backup.Schedule = "0 0 * * 9" },
			seen:   postgresql.Backup{Report: report(2, 0, "-"), Written: 100, Stored: at(100)},
			status: metav1.ConditionFalse, reason: "InvalidSchedule", message: "0 0 * * 9",
		},
		"a quota that allows no Pod of the backup": {
			change:    func(db *v1alpha1.Database) { db.Spec.Metadata.Labels = map[string]v1alpha1.LabelValue{"team": "shop"} },
			seen:      postgresql.Backup{Report: report(2, 0, "-"), Written: 100, Stored: at(100)},
			rejection: forbidden,
			status:    metav1.ConditionFalse, reason: "Forbidden", message: "exceeded quota",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, server := running(t, withBackup)
			if c.rejection != nil {
				f.Kube.PrependReactor("patch", "deployments",
					func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, c.rejection })
			}
			if c.change != nil {
				f.Change(func(db *v1alpha1.Database) { db.Generation++; c.change(db) })
			}
			for _, server.seen.Backup = range []postgresql.Backup{c.first, c.seen} {
				server.err = c.err
				f.Clock.Step(2 * time.Minute)
				f.Reconcile()
			}
			said := f.backedUp()
			controllertest.Equal(t, "BackedUp", c.status, said.Status)
			controllertest.Equal(t, "reason", c.reason, said.Reason)
			if !strings.Contains(said.Message, c.message) {
				t.Errorf("the message is %q, want a message with %q", said.Message, c.message)
			}
			controllertest.Equal(t, "recoverableUntil is set", c.until, f.Object().Status.Backup.RecoverableUntil != nil)
			controllertest.Equal(t, "Ready", metav1.ConditionTrue, f.ready().Status)
		})
	}
}

func TestLostVolumeSaysHowToRestoreBackup(t *testing.T) {
	f, _ := running(t, withBackup)
	f.changeClaim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost })
	f.Reconcile()
	controllertest.Equal(t, "reason", "VolumeLost", f.reason())
	if want := "kubectl delete pvc -n default shop --wait=false && "; !strings.Contains(f.ready().Message, want) {
		t.Errorf("the message is %q, want a message with %q", f.ready().Message, want)
	}
}

func TestBackupAtRestCausesNoWrites(t *testing.T) {
	f, server := running(t, withBackup)
	for i := range 20 {
		position := int64(i * 1000)
		server.seen.Backup = postgresql.Backup{
			Report: "windlass 1 1796000000 1795000000 2 0 abc -", Written: position, Stored: &position,
		}
		f.Clock.Step(readOften)
		if r := f.Reconcile(); i > 1 {
			controllertest.Equal(t, "writes", nil, r.Writes)
		}
	}
}

func TestRestoreReplacesServerUntilItIsComplete(t *testing.T) {
	from := func(db *v1alpha1.Database) {
		db.Spec.RestoreFrom = &v1alpha1.DatabaseRestore{Database: v1alpha1.LocalDatabase{Name: "other"}}
	}
	managed := map[string]string{controller.ManagedByLabel: controller.ManagedByWindlass}
	writer := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other-backup", Labels: managed},
		Status:     appsv1.DeploymentStatus{ReadyReplicas: 1},
	}
	f := newFixture(t, example(from), writer)
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	set := f.statefulSet()
	spec := set.Spec.Template.Spec
	if spec.Affinity == nil || !strings.Contains(fmt.Sprint(spec.Affinity.PodAffinity), "other") {
		t.Error("the Pod need not run beside the backup of the other Database")
	}
	controllertest.Equal(t, "script", restoreScript, spec.Containers[0].Command[2])
	controllertest.Equal(t, "reason", "Restoring", f.reason())
	controllertest.Equal(t, "phase", v1alpha1.DatabaseDeploying, f.Object().Status.Phase)
	controllertest.Equal(t, "writes at rest", nil, f.Reconcile().Writes)
	f.start()
	f.changeStatefulSet(func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "1" })
	f.Store(f.pod("1", corev1.PodStatus{
		Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: containerName, Ready: true}},
	}))
	f.Reconcile()
	controllertest.Equal(t, "script", serverScript, f.statefulSet().Spec.Template.Spec.Containers[0].Command[2])
	controllertest.Equal(t, "claim of the restore", string(f.claim().UID), f.Object().Status.RestoredClaim)
	controllertest.Equal(t, "affinity", (*corev1.Affinity)(nil), f.statefulSet().Spec.Template.Spec.Affinity)
	f.start()
	f.Reconcile()
	controllertest.Equal(t, "reason", "Available", f.reason())
	f.Remove(f.statefulSet())
	f.Reconcile()
	controllertest.Equal(t, "script of a new StatefulSet", serverScript,
		f.statefulSet().Spec.Template.Spec.Containers[0].Command[2])
}

func TestRestoreOfOwnBackup(t *testing.T) {
	annotated := func(value string) func(*v1alpha1.Database) {
		return func(db *v1alpha1.Database) {
			withBackup(db)
			db.Annotations = map[string]string{restoreAnnotation: value}
		}
	}
	for value, target := range map[string]string{"latest": "", "2030-02-10T21:29:00+01:00": "2030-02-10T20:29:00Z"} {
		f := newFixture(t, example(annotated(value)))
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
		values := map[string]string{}
		for _, variable := range f.statefulSet().Spec.Template.Spec.Containers[0].Env {
			values[variable.Name] = variable.Value
		}
		controllertest.Equal(t, "time", target, values["TARGET"])
		controllertest.Equal(t, "keep", "yes", values["KEEP"])
	}
	f := newFixture(t, example(annotated("yesterday")))
	f.Reconcile()
	controllertest.Equal(t, "reason", "InvalidRestore", f.reason())
}

func TestWithdrawnRestoreRunsNoEmptyServer(t *testing.T) {
	f := newFixture(t, example(withBackup, func(db *v1alpha1.Database) {
		db.Annotations = map[string]string{restoreAnnotation: restoreLatest}
	}))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "replicas of the backup", int32(0), *f.backupDeployment().Spec.Replicas)
	f.Change(func(db *v1alpha1.Database) { db.Annotations = nil })
	f.Reconcile()
	controllertest.Equal(t, "reason", "RestoreWithdrawn", f.reason())
	controllertest.Equal(t, "the Pods restore", true, restores(&f.statefulSet().Spec.Template))
}

func TestRestoreDoesNotReplaceServer(t *testing.T) {
	f, _ := running(t, withBackup)
	f.Change(func(db *v1alpha1.Database) { db.Annotations = map[string]string{restoreAnnotation: restoreLatest} })
	f.Reconcile()
	controllertest.Equal(t, "the Pods restore", false, restores(&f.statefulSet().Spec.Template))
	f.Remove(f.statefulSet()) // from the cache and the server
	f.Reconcile()
	controllertest.Equal(t, "the Pods restore", true, restores(&f.statefulSet().Spec.Template))
}

func TestLostVolumeOfBackupIsReported(t *testing.T) {
	f, server := running(t, withBackup)
	position := int64(100)
	server.seen.Backup = postgresql.Backup{Report: "windlass 1 0 0 0 0 - -", Written: position, Stored: &position}
	kindtest.Change(f.Cluster, "default", "shop-backup", func(c *corev1.PersistentVolumeClaim) {
		c.Status.Phase = corev1.ClaimLost
	})
	f.Clock.Step(readOften)
	f.Reconcile()
	controllertest.Equal(t, "reason", "BackupVolumeLost", f.backedUp().Reason)
}
