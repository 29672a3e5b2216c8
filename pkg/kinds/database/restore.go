package database

import (
	_ "embed"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// The StatefulSet of the server restores a backup before the server runs for the first time. The StatefulSet is created
// with a Pod template that runs restore.sh. When its Pod is ready, the backup is restored, and the StatefulSet gets the
// template of the server. The StatefulSet thus keeps a restore and a server from using the volume at the same time.

//go:embed restore.sh
var restoreScript string

// restoreAnnotation on a Database requests that its own backup is restored when its StatefulSet is created again: to
// the time in the annotation, in the format of RFC 3339, or to the latest time.
const (
	restoreAnnotation = controller.AnnotationDomain + "/restore"
	restoreLatest     = "latest"
)

// restore is a requested restore.
type restore struct {
	from string     // the name of the Database whose backup is restored
	time *time.Time // nil is the latest time
	// own is true if the Database restores its own backup. Such a restore leaves a volume with data as it is. No backup
	// is written meanwhile.
	own bool
	// beside is true if the Pod must run on the node of the Pod that writes the backup, because a volume may be mounted
	// on a single node only.
	beside bool
}

// restoreOf returns the restore that a Database requests, or nil. It returns an error if the value of restoreAnnotation
// is not valid.
func restoreOf(db *v1alpha1.Database) (*restore, error) {
	if request := db.Annotations[restoreAnnotation]; request != "" {
		of := &restore{from: db.Name, own: true}
		if request == restoreLatest {
			return of, nil
		}
		at, err := time.Parse(time.RFC3339, request)
		if err != nil {
			return nil, controller.Stalled(messageRestoreRequest.Error(strconv.Quote(request)), 0)
		}
		of.time = &at
		return of, nil
	}
	if from := db.Spec.RestoreFrom; from != nil {
		of := &restore{from: from.Database.Name}
		if from.Time != nil {
			of.time = &from.Time.Time
		}
		return of, nil
	}
	return nil, nil
}

// target returns the time to which to restore, or "" for the latest time.
func (of *restore) target() string {
	if of.time == nil {
		return ""
	}
	return of.time.UTC().Format(time.RFC3339)
}

// id identifies the restore on the volume. It is the same for a Database that is created again, so that the restored
// data is used.
func (of *restore) id(db *v1alpha1.Database) string {
	return digestOf(db.Namespace + "/" + db.Name + "/" + of.from + "/" + of.target())
}

// isRestored succeeds after the backup was restored.
const isRestored = `[ -e "$STATE/restored" ]`

// restoreName is the name of the script in the command of a container that restores a backup.
const restoreName = "restore"

// isRestoring reports whether a container restores a backup.
func isRestoring(c *corev1.Container) bool {
	return c != nil && len(c.Command) == scriptIndex+2 && c.Command[scriptIndex+1] == restoreName
}

// restores reports whether the Pods of a Pod template restore a backup.
func restores(template *corev1.PodTemplateSpec) bool {
	return isRestoring(pods.Container(template, containerName))
}

// setRestore sets p.restore if the Pod of the StatefulSet restores a backup in place of running the server. A restore
// is due when the StatefulSet is created, once for each claim, and ends when the container is ready.
func (r *reconciler) setRestore(p *scope) (err error) {
	set := r.ownStatefulSet(p)
	claim, err := r.claim.Type().Cache.Get(p.db.Namespace, p.db.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading PersistentVolumeClaim %s/%s from the cache: %w", p.db.Namespace, p.db.Name, err)
	}
	exists := err == nil
	if exists && r.hasRestored(set) {
		p.db.Status.RestoredClaim = string(claim.UID)
	}
	if exists && p.db.Status.RestoredClaim == string(claim.UID) || set != nil && !restores(&set.Spec.Template) {
		return nil
	}
	if p.restore, err = restoreOf(p.db); err != nil {
		return err
	}
	switch {
	case p.restore == nil && set != nil:
		return controller.Stalled(messageRestoreWithdrawn.Error(p.db.Namespace, p.db.Name), 0)
	case p.restore == nil || p.restore.own:
		return nil
	case set != nil: // so that the restore does not begin again
		affinity := set.Spec.Template.Spec.Affinity
		p.restore.beside = affinity != nil && affinity.PodAffinity != nil
		return nil
	}
	writer, err := r.backups.Type().Cache.Get(p.db.Namespace, p.restore.from+backupSuffix)
	p.restore.beside = err == nil && writer.Status.ReadyReplicas > 0
	return nil
}

// keepServer makes sure that no restore replaces a server, whose StatefulSet the cache may have lacked.
func (r *reconciler) keepServer(p *scope, desired, live *appsv1.StatefulSet) {
	if p.restore == nil || restores(&live.Spec.Template) {
		return
	}
	p.restore = nil
	if template, err := desiredTemplate(p.db, r.image, nil); err == nil {
		desired.Spec.Template = *template
	}
}

// hasRestored reports whether the Pod of a StatefulSet, which may be nil, has restored a backup. Other containers of
// the Pod do not matter: they may need a server.
func (r *reconciler) hasRestored(set *appsv1.StatefulSet) bool {
	if set == nil || !restores(&set.Spec.Template) || set.Status.ObservedGeneration < set.Generation {
		return false
	}
	pod, err := r.pod(set.Namespace, set.Name+"-0")
	return err == nil && metav1.IsControlledBy(pod, set) && pods.StatusOf(pod, containerName).Ready &&
		pod.Labels[appsv1.ControllerRevisionHashLabelKey] == set.Status.UpdateRevision
}

// changePod changes the Pod template of the server so that the Pod restores a backup.
func (of *restore) changePod(db *v1alpha1.Database, template *corev1.PodTemplateSpec) {
	spec, c := &template.Spec, &template.Spec.Containers[0]
	keep := ""
	if of.own {
		keep = "yes"
	}
	c.Command, c.Args = []string{"sh", "-c", restoreScript, restoreName}, nil
	c.Env = []corev1.EnvVar{
		{Name: "BACKUP", Value: backupPath},
		{Name: "PGDATA", Value: dataPath + "/pgdata"},
		{Name: "STATE", Value: statePath},
		{Name: "TARGET", Value: of.target()},
		{Name: "DATABASE", Value: db.Spec.DatabaseName},
		{Name: "RESTORE", Value: of.id(db)},
		{Name: "KEEP", Value: keep},
		{Name: "TERMINATION_LOG", Value: corev1.TerminationMessagePathDefault},
	}
	c.StartupProbe, c.LivenessProbe, c.Lifecycle = nil, nil, nil
	c.ReadinessProbe = &corev1.Probe{
		ProbeHandler: shell(isRestored), PeriodSeconds: startupPeriodSeconds, TimeoutSeconds: probeTimeoutSeconds,
	}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: dataVolume, MountPath: dataPath},
		{Name: sharedVolume, MountPath: sharedPath},
		{Name: stateVolume, MountPath: statePath},
		{Name: backupVolume, MountPath: backupPath, ReadOnly: true},
	}
	if of.beside {
		writer := map[string]string{
			nameLabel: backupLabelValue, instanceLabel: of.from, controller.ManagedByLabel: controller.ManagedByWindlass,
		}
		spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: writer}, TopologyKey: corev1.LabelHostname,
			}},
		}}
	}
	spec.TerminationGracePeriodSeconds = ptr.To[int64](backupGracePeriod)
	spec.Volumes = append(spec.Volumes,
		corev1.Volume{Name: stateVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: backupVolume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: of.from + backupSuffix, ReadOnly: true},
		}})
}
