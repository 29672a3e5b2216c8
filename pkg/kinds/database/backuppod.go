package database

import (
	_ "embed"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/kinds/internal/podtemplate"
	"windlass.dev/windlass/pkg/postgresql"
)

// The Pod of the backup runs beside the server, in a Deployment. A StatefulSet would add a hash to its name in a label
// of the Pod, which would be too long for the longest name of a Database.

const (
	// backupSuffix follows the name of the Database in the names of the children for the backup.
	backupSuffix    = "-backup"
	backupContainer = "backup"
	// backupLabelValue is the value of nameLabel, so that the Service does not select the Pod of the backup.
	backupLabelValue = "database-backup"

	backupVolume       = "backups"
	backupPath         = "/var/lib/windlass/backups"
	backupSettingsPath = "/etc/windlass/backup"
	stateVolume        = "state"
	statePath          = "/run/windlass"
	backupGracePeriod  = 30
)

// Keys of the Secret <name>-backup, which the Pod of the backup mounts: see backup.sh.
const (
	keyBackupHost     = "host"
	keyBackupPassword = "password"
	keyBackupRequest  = "request"
	// keyBackupRequested is a digest of the last value of backupAnnotation for which a base backup was requested.
	keyBackupRequested = "requested"
	keyBackupKeep      = "keep"
)

//go:embed backup.sh
var backupScript string

// backupName returns the name of the children for the backup.
func backupName(db *v1alpha1.Database) string { return db.Name + backupSuffix }

// backupLabels returns the labels of the children for the backup, except the claim.
func backupLabels(db *v1alpha1.Database) map[string]string {
	labels := labelsOf(db)
	labels[nameLabel] = backupLabelValue
	return labels
}

// backupSelector returns the labels that select the Pod of the backup.
func backupSelector(db *v1alpha1.Database) map[string]string {
	labels := selectorOf(db)
	labels[nameLabel] = backupLabelValue
	return labels
}

// desiredBackupSecret returns the Secret with a new password and a first request. An existing Secret keeps both: see
// keepBackup.
func desiredBackupSecret(db *v1alpha1.Database, e encryption, request string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metaOf(db), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{
		keyBackupHost:     []byte(hostOf(db)),
		keyBackupPassword: []byte(credentials.NewPassword()),
		keyBackupRequest:  []byte(request),
		keyBackupKeep:     []byte(strconv.Itoa(int(db.Spec.Backup.Keep))),
	}}
	secret.Name, secret.Labels = backupName(db), backupLabels(db)
	if digest := digestOf(db.Annotations[backupAnnotation]); digest != "" {
		secret.Data[keyBackupRequested] = []byte(digest)
	}
	if len(e.authorities) > 0 {
		secret.Data[credentials.KeyCA] = e.authorities
	}
	return secret
}

// desiredBackupClaim returns the claim for the backups. It has no label app.kubernetes.io/instance: see desiredClaim.
func desiredBackupClaim(db *v1alpha1.Database) *corev1.PersistentVolumeClaim {
	claim, wants := desiredClaim(db), db.Spec.Backup.Destination.Claim
	claim.Name, claim.Labels[nameLabel] = backupName(db), backupLabelValue
	claim.Spec.StorageClassName = wants.StorageClassName
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = wants.Size
	return claim
}

// backupRules say what spec.backup.podTemplate may change.
var backupRules = podtemplate.Rules{
	Container: backupContainer,
	Fixed:     []podtemplate.Field[corev1.Container]{podtemplate.Command, podtemplate.Args},
}

// desiredBackup returns the Deployment with the Pod of the backup. An error says what is wrong with
// spec.backup.podTemplate.
func desiredBackup(db *v1alpha1.Database, image string, replicas int32) (*appsv1.Deployment, error) {
	generated := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: backupLabels(db)}, Spec: backupPod(db, image),
	}
	template, err := podtemplate.Merge(generated, db.Spec.Backup.PodTemplate, backupRules)
	if err != nil {
		return nil, err
	}
	if !equality.Semantic.DeepEqual(generated, template) {
		podtemplate.SetOverrides(template, db.Spec.Backup.PodTemplate)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metaOf(db), Spec: appsv1.DeploymentSpec{
		Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: backupSelector(db)},
		// Two Pods must not use the volume and the slot at the same time.
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
		Template: *template,
	}}
	deployment.Name, deployment.Labels = backupName(db), backupLabels(db)
	return deployment, nil
}

func backupPod(db *v1alpha1.Database, image string) corev1.PodSpec {
	spec := desiredPod(db, image)
	spec.TerminationGracePeriodSeconds = ptr.To[int64](backupGracePeriod)
	spec.Containers = []corev1.Container{backupContainerOf(db, image)}
	spec.Volumes = []corev1.Volume{
		{Name: backupVolume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: backupName(db)},
		}},
		{Name: stateVolume, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
		}},
		{Name: settingsVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: backupName(db), DefaultMode: ptr.To[int32](0o440),
		}}},
	}
	return spec
}

func backupContainerOf(db *v1alpha1.Database, image string) corev1.Container {
	security := pods.RestrictedContainer()
	security.ReadOnlyRootFilesystem = ptr.To(true)
	env := []corev1.EnvVar{
		{Name: "ROOT", Value: backupPath},
		{Name: "SETTINGS", Value: backupSettingsPath},
		{Name: "STATE", Value: statePath},
		{Name: "PGPASSFILE", Value: statePath + "/pgpass"},
		{Name: "PGPORT", Value: strconv.Itoa(port)},
		{Name: "PGUSER", Value: postgresql.BackupRole},
		{Name: "PGSSLMODE", Value: "disable"},
	}
	if hasTLS(db) {
		env[len(env)-1].Value = "verify-full"
		env = append(env, corev1.EnvVar{Name: "PGSSLROOTCERT", Value: backupSettingsPath + "/" + credentials.KeyCA})
	}
	return corev1.Container{
		Name:            backupContainer,
		Image:           imageOf(db, image),
		ImagePullPolicy: pods.PullPolicy(imageOf(db, image)),
		Command:         []string{"sh", "-c", backupScript, "backup"},
		Env:             env,
		VolumeMounts: []corev1.VolumeMount{
			{Name: backupVolume, MountPath: backupPath},
			{Name: stateVolume, MountPath: statePath},
			{Name: settingsVolume, MountPath: backupSettingsPath, ReadOnly: true},
		},
		SecurityContext: security,
	}
}
