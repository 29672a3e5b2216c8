package database

import (
	_ "embed"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

const (
	containerName = "postgresql"
	postgresUser  = 999 // the user ID in Docker's official Debian images

	dataVolume        = "data"
	dataPath          = "/var/lib/postgresql/data"
	runVolume         = "run"
	runPath           = "/var/run/postgresql"
	sharedVolume      = "shared-memory"
	sharedPath        = "/dev/shm"
	credentialsVolume = "credentials"
	credentialsPath   = "/etc/windlass/credentials"

	// gracePeriodSeconds is how long PostgreSQL may take to shut down. If it is killed, it recovers at
	// the next start.
	gracePeriodSeconds = 120

	readinessPeriodSeconds = 5
	// startupPeriodSeconds is how often the kubelet checks whether PostgreSQL has started. The other probes run once it
	// has. Recovery after a crash can take long, so the kubelet never restarts a container that is still starting.
	startupPeriodSeconds = 1
	startupFailures      = math.MaxInt32
	// The kubelet must not restart PostgreSQL because a probe is slow on a busy node.
	livenessPeriodSeconds = 10
	livenessFailures      = 6
	probeTimeoutSeconds   = 10
)

// scriptIndex is the index of startScript in the command of the container.
const scriptIndex = 2

// startScript is the script that the container runs. Its arguments are the arguments of the server.
//
//go:embed start.sh
var startScript string

// Scripts of the probes and of the preStop hook.
const (
	// isReady succeeds while the server accepts TCP connections.
	isReady = `exec pg_isready --quiet --host=localhost --username=postgres --dbname=postgres`
	// isCurrent fails if the mounted password differs from the password of the server. They differ if the Pod
	// started before the kubelet observed a change of the Secret. After several failures, the kubelet restarts
	// the container. The script starts no process: after a timeout of the probe, the process would become a
	// child of the server. The server treats a child that a signal kills as a crash. The script ignores a
	// password with a control character.
	isCurrent = `[ -e "$TAKEN_FILE" ] || exit 0
IFS= read -r now <"$PASSWORD_FILE" && exit 0
case $now in *[[:cntrl:]]*) exit 0 ;; esac
IFS= read -r taken <"$TAKEN_FILE"
[ "$now" = "$taken" ]`
	// shutDown makes the server close its connections, whatever the stop signal of the image is. After
	// SIGTERM the server would wait for clients to close them.
	shutDown = `kill -INT "$(head -n 1 "$PGDATA/postmaster.pid")"`
)

// DefaultImage is the image of a Database that names none. The tag is spec.version. The image has no
// digest, because a new digest in a new version of the operator would restart every server.
const DefaultImage = "postgres"

// desiredPod returns the spec of the Pod, which complies with the Pod Security Standard restricted. image
// is the image without its tag. It is used unless the spec names an image.
func desiredPod(db *v1alpha1.Database, image string) corev1.PodSpec {
	security := pods.Restricted()
	security.RunAsUser, security.RunAsGroup, security.FSGroup = ptr.To[int64](postgresUser), ptr.To[int64](postgresUser), ptr.To[int64](postgresUser)
	security.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch) // otherwise each mount would change the group of every file
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](gracePeriodSeconds),
		AutomountServiceAccountToken:  ptr.To(false),
		SecurityContext:               security,
		Containers:                    []corev1.Container{desiredContainer(db, image)},
		Volumes: []corev1.Volume{
			{Name: dataVolume, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: db.Name}}},
			{Name: runVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			// The default size of /dev/shm, 64 MB, is too small for parallel queries.
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
	return corev1.Container{
		Name:    containerName,
		Image:   imageOf(db, image),
		Command: []string{"sh", "-c", startScript, "postgres"}, // the script has scriptIndex
		Args:    serverArgs(db),
		Env: []corev1.EnvVar{
			{Name: "PGDATA", Value: dataPath + "/pgdata"}, // not the root of the volume, which may have a directory lost+found
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
		StartupProbe:   &corev1.Probe{ProbeHandler: shell(isReady), PeriodSeconds: startupPeriodSeconds, TimeoutSeconds: probeTimeoutSeconds, FailureThreshold: startupFailures},
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

// imageOf returns the image of the container. repository is the image without its tag, for a Database that names none.
func imageOf(db *v1alpha1.Database, repository string) string {
	if db.Spec.Image != "" {
		return db.Spec.Image
	}
	return repository + ":" + db.Spec.Version
}

// ownerAttributes returns the SQL keywords that set or clear each attribute of the owner.
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

// serverArgs returns the parameters of the user, followed by the parameters that the user cannot set.
// PostgreSQL uses the last value of each.
func serverArgs(db *v1alpha1.Database) []string {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(db.Spec.Parameters)) {
		args = append(args, "-c", name+"="+literal(string(db.Spec.Parameters[name])))
	}
	return append(args, "-c", "listen_addresses=*", "-c", "port="+strconv.Itoa(port), "-c", "unix_socket_directories="+runPath)
}

// literal escapes a text so that the kubelet expands no $(VARIABLE) in it.
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

func shell(script string) corev1.ProbeHandler {
	return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}}
}
