package database

import (
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/internal/credentials"
	"windlass.dev/windlass/pkg/controller/internal/pods"
)

const (
	containerName = "postgresql"
	postgresUser  = 999 // of Docker's official Debian images

	dataVolume        = "data"
	dataPath          = "/var/lib/postgresql/data"
	runVolume         = "run"
	runPath           = "/var/run/postgresql"
	sharedVolume      = "shared-memory"
	sharedPath        = "/dev/shm"
	credentialsVolume = "credentials"
	credentialsPath   = "/etc/windlass/credentials"

	// gracePeriodSeconds is how long PostgreSQL may take to shut down. Killed later, it
	// recovers at the next start.
	gracePeriodSeconds = 120

	readinessPeriodSeconds = 5
	// A machine that is slow to run a probe is no reason to start PostgreSQL anew.
	livenessPeriodSeconds = 10
	livenessFailures      = 6
	probeTimeoutSeconds   = 10
)

// startScript is run by the shell, with the server's arguments.
//
//go:embed start.sh
var startScript string

// Scripts of probes, and of the end.
const (
	// isReady is true while TCP connections are taken.
	isReady = `exec pg_isready --quiet --host=localhost --username=postgres --dbname=postgres`
	// isCurrent is false when the mounted password is not the one that the server has
	// taken: the Secret has changed, and the Pod was made before the kubelet knew. Then the
	// container is started again. It runs no program: one that is left behind when the
	// probe takes too long would become the server's child, and to PostgreSQL a child that
	// dies of a signal is a crash. A password with a control character is not taken.
	isCurrent = `[ -e "$TAKEN_FILE" ] || exit 0
IFS= read -r now <"$PASSWORD_FILE" && exit 0
case $now in *[[:cntrl:]]*) exit 0 ;; esac
IFS= read -r taken <"$TAKEN_FILE"
[ "$now" = "$taken" ]`
	// shutDown has the server end its connections, whatever signal the image names: with
	// SIGTERM it waits until they end by themselves.
	shutDown = `kill -INT "$(head -n 1 "$PGDATA/postmaster.pid")"`
)

// DefaultImage is the image of a Database that names none, without the tag, which is the
// version. It has no digest: the tag is that of the newest minor version, and another digest
// in a new version of the operator would restart every server.
const DefaultImage = "postgres"

// desiredPod returns the spec of the Pod, which complies with the Pod Security Standard restricted. image is what Options.Image says.
func desiredPod(db *v1alpha1.Database, image string) corev1.PodSpec {
	security := pods.Restricted()
	security.RunAsUser, security.RunAsGroup, security.FSGroup = ptr.To[int64](postgresUser), ptr.To[int64](postgresUser), ptr.To[int64](postgresUser)
	security.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch) // or each mount would touch every file
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](gracePeriodSeconds),
		AutomountServiceAccountToken:  ptr.To(false),
		SecurityContext:               security,
		Containers:                    []corev1.Container{desiredContainer(db, image)},
		Volumes: []corev1.Volume{
			{Name: dataVolume, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: db.Name}}},
			{Name: runVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			// Without this there are 64 MB, too few for parallel queries.
			{Name: sharedVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
			{Name: credentialsVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName: credentials.Name(db.Name), DefaultMode: ptr.To[int32](0o440), Items: []corev1.KeyToPath{{Key: credentials.KeyPassword, Path: credentials.KeyPassword}},
			}}},
		},
	}
}

func desiredContainer(db *v1alpha1.Database, image string) corev1.Container {
	security := pods.RestrictedContainer()
	security.ReadOnlyRootFilesystem = ptr.To(true)
	image += ":" + db.Spec.Version
	if db.Spec.Image != "" {
		image = db.Spec.Image
	}
	return corev1.Container{
		Name:    containerName,
		Image:   image,
		Command: []string{"sh", "-c", startScript, "postgres"},
		Args:    serverArgs(db),
		Env: []corev1.EnvVar{
			{Name: "PGDATA", Value: dataPath + "/pgdata"}, // below the volume's own directory, which may hold lost+found
			{Name: "PGHOST", Value: runPath},
			{Name: "PGPORT", Value: strconv.Itoa(port)},
			{Name: "PGUSER", Value: "postgres"}, // for `kubectl exec … -- psql`
			{Name: "PGDATABASE", Value: literal(db.Spec.DatabaseName)},
			{Name: "OWNER", Value: literal(db.Spec.Owner)},
			{Name: "ATTRIBUTES", Value: ownerAttributes(db)},
			{Name: "PASSWORD_FILE", Value: credentialsPath + "/" + credentials.KeyPassword},
			{Name: "TAKEN_FILE", Value: sharedPath + "/password"},
			{Name: "TERMINATION_LOG", Value: corev1.TerminationMessagePathDefault},
		},
		Ports:          []corev1.ContainerPort{{Name: portName, ContainerPort: port}},
		Resources:      pods.Rounded(db.Spec.Resources),
		ReadinessProbe: &corev1.Probe{ProbeHandler: shell(isReady), PeriodSeconds: readinessPeriodSeconds, TimeoutSeconds: probeTimeoutSeconds},
		LivenessProbe:  &corev1.Probe{ProbeHandler: shell(isCurrent), PeriodSeconds: livenessPeriodSeconds, TimeoutSeconds: probeTimeoutSeconds, FailureThreshold: livenessFailures},
		Lifecycle:      &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: shell(shutDown).Exec}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: dataVolume, MountPath: dataPath},
			{Name: runVolume, MountPath: runPath},
			{Name: sharedVolume, MountPath: sharedPath},
			{Name: credentialsVolume, MountPath: credentialsPath, ReadOnly: true},
		},
		SecurityContext: security,
	}
}

// ownerAttributes says of each attribute whether the owner has it, in SQL.
func ownerAttributes(db *v1alpha1.Database) string {
	words := make([]string, 0, 2)
	for _, attribute := range []v1alpha1.OwnerAttribute{v1alpha1.OwnerCreateDB, v1alpha1.OwnerCreateRole} {
		word := strings.ToUpper(string(attribute))
		if !slices.Contains(db.Spec.OwnerAttributes, attribute) {
			word = "NO" + word
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// serverArgs are the user's parameters and then, since the last one counts, those that
// are not the user's to set.
func serverArgs(db *v1alpha1.Database) []string {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(db.Spec.Parameters)) {
		args = append(args, "-c", name+"="+literal(string(db.Spec.Parameters[name])))
	}
	return append(args, "-c", "listen_addresses=*", "-c", "port="+strconv.Itoa(port), "-c", "unix_socket_directories="+runPath)
}

// literal is a text in which the kubelet does not look for $(VARIABLES).
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

func shell(script string) corev1.ProbeHandler {
	return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}}
}
