package faults

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/certificates"
)

// podServers are the simulated PostgreSQL servers in the Pods of Databases. They set the roles and passwords in the
// settings Secret, as the script of a real Pod does.
type podServers struct {
	run *run

	mu      sync.Mutex
	volumes map[types.UID]volume     // by the UID of the claim
	servers map[types.UID]*podServer // by the UID of the Pod
	promise promise
	// used is the number of bytes of data on the volume.
	used int64
}

// volume is the data of a server: the passwords of the roles that can log in, by the name of the role. A later Pod on
// the same claim continues to use the volume.
type volume map[string]string

// podServer is the server in a Pod.
type podServer struct {
	address  string
	revision string // of the settings that the server has applied last
	roles    volume
	// certificate and key are those in the settings, in PEM form.
	certificate, key []byte
	// replicates is true if a backup may replicate.
	replicates bool
}

func newPodServers(r *run) *podServers {
	return &podServers{run: r, volumes: map[types.UID]volume{}, servers: map[types.UID]*podServer{}}
}

// rolesInSettings are the keys of the names of the roles in the settings Secret.
var rolesInSettings = []string{"owner", "alternate1", "alternate2"}

// apply makes the roles of the server match the settings.
func (s *podServer) apply(settings map[string][]byte) {
	known := map[string]bool{}
	for _, key := range rolesInSettings {
		name := string(settings[key])
		known[name] = true
		switch string(settings[key+".login"]) {
		case "Password":
			s.roles[name] = string(settings[key+".password"])
		case "None":
			delete(s.roles, name)
		}
	}
	maps.DeleteFunc(s.roles, func(name, _ string) bool { return !known[name] }) // a previous owner and its alternates
	s.revision = string(settings["revision"])
	_, s.replicates = settings["backup.password"]
	s.certificate, s.key = settings[corev1.TLSCertKey], settings[corev1.TLSPrivateKeyKey]
}

// isVerified reports whether a client with a connection Secret accepts the certificate of the server.
func (s *podServer) isVerified(connection *corev1.Secret, now time.Time) bool {
	pair, err := certificates.ParsePair(s.certificate, s.key)
	return err == nil && pair.Leaf.VerifyHostname(string(connection.Data["host"])) == nil &&
		pair.IsTrusted(certificates.ParseBundle(connection.Data[certificates.KeyBundle], now), now)
}

// accepts reports whether a role can log in with a password.
func (s *podServer) accepts(role, password string) bool {
	set, ok := s.roles[role]
	return ok && set == password
}

// passedAnnotation is the annotation of a Pod with which the operator makes the kubelet update the settings.
const passedAnnotation = "windlass.dev/settings-revision"

// runServer takes a step of the kubelet, or of the server, in a Pod of a StatefulSet, and reports whether there was a
// step. A server has the settings before its Pod is ready. Changed settings are applied in a separate step, after the
// operator has annotated the Pod. Without the annotation, a real kubelet updates the settings within 90 seconds, but
// the simulated kubelet never does. A plan therefore fails if the annotation is missing.
func runServer(r *run, o *object) bool {
	var pod corev1.Pod
	if json.Unmarshal(o.raw, &pod) != nil || o.DeletionTimestamp != nil {
		return false
	}
	claim, settings := r.mounted(&pod)
	if claim == nil || settings == nil {
		return false // the kubelet waits
	}
	if serverRuns(&pod) {
		return pod.Annotations[passedAnnotation] == string(settings.Data["revision"]) && r.servers.update(&pod, settings.Data)
	}
	address := r.servers.start(&pod, claim, settings.Data)
	now := time.Now().UTC().Format(time.RFC3339)
	container := pod.Spec.Containers[0]
	return r.patch(o, "status", map[string]any{"status": map[string]any{
		"phase": corev1.PodRunning, "podIP": address, "podIPs": []any{map[string]any{"ip": address}},
		"conditions": []any{
			map[string]any{"type": corev1.PodReady, "status": corev1.ConditionTrue, "lastTransitionTime": now},
		},
		"containerStatuses": []any{map[string]any{
			"name": container.Name, "image": container.Image, "imageID": "any", "restartCount": 0, "ready": true,
			"started": true,
			"state":   map[string]any{"running": map[string]any{"startedAt": now}},
		}},
	}})
}

// mounted returns the claim and the Secret that a Pod mounts. A result is nil if the object does not exist.
func (r *run) mounted(pod *corev1.Pod) (claim *object, settings *corev1.Secret) {
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			claim = r.find("persistentvolumeclaims", pod.Namespace, v.PersistentVolumeClaim.ClaimName)
		case v.Secret != nil:
			settings, _ = r.secret(v.Secret.SecretName)
		}
	}
	return claim, settings
}

// secret returns a Secret of the run, or false if it does not exist.
func (r *run) secret(name string) (*corev1.Secret, bool) {
	var secret corev1.Secret
	o := r.find("secrets", r.namespace, name)
	if o == nil || json.Unmarshal(o.raw, &secret) != nil {
		return nil, false
	}
	return &secret, true
}

// start starts the server in a Pod on the volume of a claim, and returns its address.
func (s *podServers) start(pod *corev1.Pod, claim *object, settings map[string][]byte) (address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.volumes[claim.UID] == nil {
		s.volumes[claim.UID] = volume{}
	}
	sum := fnv.New32a()
	fmt.Fprint(sum, pod.UID)
	n := sum.Sum32()
	server := &podServer{address: fmt.Sprintf("10.%d.%d.%d", n>>16&0xff, n>>8&0xff, n&0xff), roles: s.volumes[claim.UID]}
	server.apply(settings)
	s.servers[pod.UID] = server
	return server.address
}

// update applies changed settings to the server in a Pod, and reports whether the settings had changed.
func (s *podServers) update(pod *corev1.Pod, settings map[string][]byte) bool {
	s.mu.Lock()
	server := s.servers[pod.UID]
	if server == nil || server.revision == string(settings["revision"]) {
		s.mu.Unlock()
		return false
	}
	server.apply(settings)
	s.mu.Unlock()
	s.run.log("by", nil, "the server in Pod "+pod.Name+" has applied its settings", nil, nil)
	s.run.beginInterval()
	s.checkPromise()
	return true
}

// running returns the servers whose Pods exist. The caller holds the lock.
func (s *podServers) running() (servers []*podServer) {
	objects, _ := s.run.history.objects(indexOf("", "pods"), newestVersion)
	for _, o := range objects {
		if server := s.servers[o.UID]; server != nil {
			servers = append(servers, server)
		}
	}
	return servers
}

// state returns which roles can log in to the running server, and the result of a login with the connection Secret. The
// key server/role/ROLE stands for a role, server/login/SECRET for the login, and server/certificate/SECRET for the
// verification of the server at the time now.
func (s *podServers) state(now time.Time) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := map[string]string{}
	for _, server := range s.running() {
		for _, role := range slices.Sorted(maps.Keys(server.roles)) {
			state["server/role/"+role] = "can log in"
		}
		if secret, ok := s.run.secret(connectionSecret); ok {
			state["server/login/"+connectionSecret] = "is rejected"
			if server.accepts(loginIn(secret)) {
				state["server/login/"+connectionSecret] = "works"
			}
			state["server/certificate/"+connectionSecret] = "is rejected"
			if server.isVerified(secret, now) {
				state["server/certificate/"+connectionSecret] = "is verified"
			}
		}
	}
	return state
}
