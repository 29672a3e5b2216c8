package database

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/postgresql"
)

const (
	// passedAnnotation on the Pod has a revision of the settings. When the annotation changes, the kubelet updates the
	// files of the settings in the container.
	passedAnnotation = "windlass.dev/settings-revision"
	// settleTime is how long a running Pod takes at most to apply a change of the settings: the kubelet updates the files
	// of a Secret every 60 s to 90 s, and the script checks the files every second.
	settleTime = 3 * time.Minute
	// lookAgain is how often the operator checks whether the server has the new settings. awayAgain is how often the
	// operator tries to connect to a server that does not respond.
	lookAgain = 2 * time.Second
	awayAgain = 30 * time.Second
	// stuckRetry is how often the operator checks a server that did not apply its settings within settleTime.
	stuckRetry = time.Minute
)

// notify changes an annotation of the Pod after a change of the settings. The kubelet then updates the files of the
// settings Secret at once, instead of at its next periodic synchronization. A Pod that was created after the change
// needs no annotation, because it starts with the settings.
func (r *reconciler) notify(ctx context.Context, p *scope) error {
	pod, revision := p.pod, revisionOf(p.settings)
	if pod == nil || pod.DeletionTimestamp != nil || !p.runsNewest() || pod.Annotations[passedAnnotation] == revision ||
		!pod.CreationTimestamp.Time.Before(changedAt(p.settings, r.clock.Now())) {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, pod.UID, passedAnnotation, revision)
	changed, err := r.pods.Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the Pod was replaced
	}
	if err != nil {
		return fmt.Errorf("annotating Pod %s/%s, so that the kubelet updates its settings: %w", pod.Namespace, pod.Name, err)
	}
	r.statefulSet.Type().Tracker.Wrote(cache.MetaObjectToName(p.db), "Pod", r.podStore, changed.ResourceVersion)
	return nil
}

// runsNewest reports whether the Pod has the newest template, runs a server, and is ready.
func (p *scope) runsNewest() bool {
	return isUp(p.statefulSet) && p.pod != nil && p.restore == nil
}

// observe reads the settings of a running server, and records them in the status. If the status already has the newest
// settings, observe at most reads how full the volume is. It sets p.settling if the server may not have the newest
// settings yet, and p.proven if the server accepts the next password of a rotation.
func (r *reconciler) observe(ctx context.Context, p *scope) error {
	status := &p.db.Status
	fields := slices.DeleteFunc(slices.Clone(status.PendingRestart), func(name string) bool { return !isField(name) })
	if p.cannotChange == nil {
		fields = pendingFields(p.template, p.statefulSet)
	}
	if !p.runsNewest() || r.connector == nil {
		status.Server, status.PendingRestart = nil, fields
		p.reading.unobserved = r.connector == nil
		return nil
	}
	started := startOf(p.pod)
	if isSeen(status.Server, revisionOf(p.settings), started) && p.logins.other.state != loginPassword &&
		p.awaitsRestart(r.clock.Now()) == 0 {
		parameters := slices.DeleteFunc(slices.Clone(status.PendingRestart), isField)
		status.PendingRestart = append(fields, parameters...)
		r.readVolume(ctx, p)
		return nil
	}
	status.Server, status.PendingRestart = nil, fields
	seen, err := r.lookAt(ctx, p)
	if err == nil {
		if seen.Certificate != nil && !p.encryption.isServed(seen.Certificate) {
			p.notLoaded = messageCertificateNotLoaded.Error(p.pod.Namespace, p.pod.Name)
		}
		status.PendingRestart = append(fields, seen.PendingRestart...)
		if seen.Revision == revisionOf(p.settings) && p.notLoaded == nil {
			status.Server = &v1alpha1.DatabaseServerStatus{Revision: seen.Revision, StartTime: started, Problem: seen.Problem}
		}
	}
	r.noteReading(p, seen, err)
	if p.settling, err = settling(p, seen, err, r.clock.Now()); err == nil && p.settling == 0 {
		p.settling = p.awaitsRestart(r.clock.Now())
	}
	return err
}

// startOf returns when the container of a running Pod started, or nil.
func startOf(pod *corev1.Pod) *metav1.Time {
	if running := pods.StatusOf(pod, containerName).State.Running; running != nil {
		return &running.StartedAt
	}
	return nil
}

// isSeen reports whether the status says that the running container has the newest settings without a problem. The
// operator reads the settings again after a problem, which may have been solved.
func isSeen(seen *v1alpha1.DatabaseServerStatus, revision string, started *metav1.Time) bool {
	return seen != nil && seen.Revision == revision && seen.StartTime.Equal(started) && seen.Problem == ""
}

// awaitsRestart returns the time until the operator checks whether the script in the Pod has restarted the server for a
// parameter, or 0 if no restart is due.
func (p *scope) awaitsRestart(now time.Time) time.Duration {
	waits := slices.ContainsFunc(p.db.Status.PendingRestart, func(name string) bool { return !isField(name) })
	switch {
	case !waits || updatePolicyOf(p.db) != v1alpha1.UpdateAutomatic:
		return 0
	case now.Before(changedAt(p.settings, now).Add(settleTime)):
		return lookAgain
	}
	return stuckRetry
}

// lookAt reads the settings of the server. It logs in with the next login of a rotation, if there is one. If the server
// rejects this login, lookAt logs in with the current login, to read why. The kubelet writes the address of the Pod, so
// a tenant cannot direct the operator to another address.
func (r *reconciler) lookAt(ctx context.Context, p *scope) (seen postgresql.ServerSettings, err error) {
	if p.pod.Status.PodIP == "" {
		return seen, postgresql.NewError(postgresql.Silent, "the Pod has no address")
	}
	with := func(as login) (postgresql.ServerSettings, error) {
		return r.connector.Settings(ctx, p.db.Namespace, p.encryption.settings(postgresql.Settings{
			Host: p.pod.Status.PodIP, Port: port, Username: as.name, Password: as.password,
			Database: p.db.Spec.DatabaseName, ServerName: hostOf(p.db),
		}))
	}
	if p.logins.other.state == loginPassword {
		seen, err = with(p.logins.other)
		p.proven = err == nil && seen.Revision == revisionOf(p.settings)
		if postgresql.ClassOf(err) == postgresql.Unproven {
			// A user of the current login can open all connections that the server allows, but must not block the rotation.
			now := r.clock.Now()
			p.proven = !now.Before(changedAt(p.settings, now).Add(settleTime))
		}
		if postgresql.ClassOf(err) != postgresql.LoginRejected {
			return seen, err
		}
	}
	return with(p.logins.current)
}

// settling returns the time until the operator checks the server again, or 0. It returns 0 if seen has the newest
// revision. It also returns 0 if settleTime has passed and the operator cannot log in for another reason than the
// password. If the server does not respond, settling returns 0 at once if the Pod was created after the last change of
// the settings. It returns an error if the server responds after settleTime, but does not have the settings.
func settling(p *scope, seen postgresql.ServerSettings, err error, now time.Time) (time.Duration, error) {
	class := postgresql.ClassOf(err)
	changed := changedAt(p.settings, now)
	// A server that has not applied the settings yet can have a previous password, certificate or mode of TLS.
	previous := class == postgresql.LoginRejected || class == postgresql.Untrusted
	unknown, late := err != nil && !previous, !now.Before(changed.Add(settleTime))
	switch {
	case err == nil && seen.Revision == revisionOf(p.settings):
		return 0, nil
	case err != nil && class == postgresql.Busy:
		return postgresql.RetryAfter(err), nil
	case unknown && (late || class == postgresql.Silent && !p.pod.CreationTimestamp.Time.Before(changed)):
		return 0, nil
	case unknown:
		return min(awayAgain, changed.Add(settleTime).Sub(now)), nil
	case !late:
		return lookAgain, nil
	}
	return 0, controller.Stalled(messageNotApplied.Error(p.pod.Namespace, p.pod.Name), stuckRetry)
}
