package database

import (
	"cmp"
	_ "embed"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

const (
	containerName = "postgresql"
	postgresUser  = 999 // the user ID in Docker's official Debian images

	dataVolume     = "data"
	dataPath       = "/var/lib/postgresql/data"
	runVolume      = "run"
	runPath        = "/var/run/postgresql"
	sharedVolume   = "shared-memory"
	sharedPath     = "/dev/shm"
	settingsVolume = "settings"
	settingsPath   = "/etc/windlass/settings"

	// gracePeriodSeconds is how long PostgreSQL may take to shut down. If PostgreSQL is killed, it recovers at its next
	// start.
	gracePeriodSeconds = 120

	readinessPeriodSeconds = 5
	// startupPeriodSeconds is how often the kubelet checks whether PostgreSQL has started. The kubelet runs the other
	// probes after that. Recovery after a crash can take long, so the kubelet never restarts a container that is still
	// starting.
	startupPeriodSeconds = 1
	startupFailures      = math.MaxInt32
	// livenessFailures and probeTimeoutSeconds are so large that the kubelet does not restart PostgreSQL because of slow
	// probes on a busy node.
	livenessPeriodSeconds = 10
	livenessFailures      = 30
	probeTimeoutSeconds   = 10
)

// scriptIndex is the index of serverScript in the command of the container.
const scriptIndex = 2

// serverScript is the script that the container runs. Its arguments are the arguments of the server.
var serverScript = rolesScript + parametersScript + volumeScript + slotScript + mainScript

//go:embed roles.sh
var rolesScript string

//go:embed parameters.sh
var parametersScript string

//go:embed volume.sh
var volumeScript string

//go:embed slot.sh
var slotScript string

//go:embed server.sh
var mainScript string

// Scripts of the probes and of the preStop hook.
const (
	// isReady succeeds while the server accepts TCP connections.
	isReady = `exec pg_isready --quiet --host=localhost --username=postgres --dbname=postgres`
	// isCurrent fails if the script has not read the mounted settings, because the script hangs. After several failures,
	// the kubelet restarts the container. isCurrent starts no process: after a timeout of the probe, the process would
	// stay in the container.
	isCurrent = `[ -e "$STATE/looked" ] || exit 0
IFS= read -r now <"$SETTINGS/revision"
IFS= read -r looked <"$STATE/looked"
[ "$now" = "$looked" ]`
	// shutDown stops the server with SIGINT, so that the server closes its connections. The stop signal of another image
	// can be SIGTERM, after which the server waits for clients to close their connections.
	shutDown = `kill -INT "$(head -n 1 "$PGDATA/postmaster.pid")"`
)

// DefaultImage is the image of Databases without spec.image. The tag is spec.version. The image has no digest, because
// a new digest in a new version of the operator would restart every server.
const DefaultImage = "postgres"

// desiredPod returns the spec of the Pod, which complies with the Pod Security Standard restricted. image
// is the image without its tag. It is used unless the spec names an image.
func desiredPod(db *v1alpha1.Database, image string) corev1.PodSpec {
	security := pods.Restricted()
	security.RunAsUser = ptr.To[int64](postgresUser)
	security.RunAsGroup = ptr.To[int64](postgresUser)
	security.FSGroup = ptr.To[int64](postgresUser)
	// OnRootMismatch, because each mount would otherwise change the group of every file
	security.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch)
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](gracePeriodSeconds),
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		SecurityContext:               security,
		Containers:                    []corev1.Container{desiredContainer(db, image)},
		Volumes: []corev1.Volume{
			{
				Name: dataVolume, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: db.Name},
				},
			},
			{Name: runVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			// The default size of /dev/shm, 64 MB, is too small for parallel queries.
			{
				Name: sharedVolume, VolumeSource: corev1.VolumeSource{
					EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
				},
			},
			{Name: settingsVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName: settingsName(db), DefaultMode: ptr.To[int32](0o440),
			}}},
		},
	}
}

func desiredContainer(db *v1alpha1.Database, image string) corev1.Container {
	security := pods.RestrictedContainer()
	security.ReadOnlyRootFilesystem = ptr.To(true)
	return corev1.Container{
		Name:            containerName,
		Image:           imageOf(db, image),
		ImagePullPolicy: pods.PullPolicy(imageOf(db, image)),
		Command:         []string{"sh", "-c", serverScript, "postgres"}, // serverScript is at scriptIndex
		Args: []string{
			"-c", "listen_addresses=*", "-c", "port=" + strconv.Itoa(port), "-c", "unix_socket_directories=" + runPath,
		},
		Env: []corev1.EnvVar{
			{Name: "PGDATA", Value: dataPath + "/pgdata"}, // not the root of the volume, which may have a directory lost+found
			{Name: "PGHOST", Value: runPath},
			{Name: "PGPORT", Value: strconv.Itoa(port)},
			{Name: "PGUSER", Value: "postgres"}, // for `kubectl exec … -- psql`
			{Name: "PGSERVICE", Value: "windlass"},
			{Name: "PGSERVICEFILE", Value: runPath + "/pg_service.conf"},
			{Name: "SETTINGS", Value: settingsPath},
			{Name: "STATE", Value: sharedPath + "/windlass"},
			{Name: "TERMINATION_LOG", Value: corev1.TerminationMessagePathDefault},
		},
		Ports:     []corev1.ContainerPort{{Name: portName, ContainerPort: port}},
		Resources: pods.Rounded(db.Spec.Resources),
		StartupProbe: &corev1.Probe{
			ProbeHandler: shell(isReady), PeriodSeconds: startupPeriodSeconds, TimeoutSeconds: probeTimeoutSeconds,
			FailureThreshold: startupFailures,
		},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler: shell(isReady), PeriodSeconds: readinessPeriodSeconds, TimeoutSeconds: probeTimeoutSeconds,
		},
		LivenessProbe: &corev1.Probe{
			ProbeHandler: shell(isCurrent), PeriodSeconds: livenessPeriodSeconds, TimeoutSeconds: probeTimeoutSeconds,
			FailureThreshold: livenessFailures,
		},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: shell(shutDown).Exec}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: dataVolume, MountPath: dataPath},
			{Name: runVolume, MountPath: runPath},
			{Name: sharedVolume, MountPath: sharedPath},
			{Name: settingsVolume, MountPath: settingsPath, ReadOnly: true},
		},
		SecurityContext: security,
	}
}

// imageOf returns the image of the container. repository is the image without its tag, for a Database that names none.
func imageOf(db *v1alpha1.Database, repository string) string {
	return cmp.Or(db.Spec.Image, repository+":"+db.Spec.Version)
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

func shell(script string) corev1.ProbeHandler {
	return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}}
}
