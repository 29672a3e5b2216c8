package database

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/robfig/cron/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/claims"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// backupAnnotation on a Database requests a base backup each time its value changes to another value that is not empty.
const backupAnnotation = controller.AnnotationDomain + "/backup"

// backup is the state of the backup in one reconcile.
type backup struct {
	secret *corev1.Secret // nil without a backup
	claim  *corev1.PersistentVolumeClaim
	// deployment is the Deployment to apply, or nil to leave it as it is.
	deployment *appsv1.Deployment
	// problem says why the operator cannot apply a part of spec.backup, or is nil. The steps continue in both cases.
	problem *controller.Note
	// next is the time until the next base backup is due, or 0.
	next time.Duration
}

func hasBackup(p *scope) bool { return p.db.Spec.Backup != nil }

// declareBackup declares the children for the backup. The Secret is not among them, because the settings need it: see
// declareChildren.
func (r *reconciler) declareBackup(c kinds.Cluster) []children.Child[*scope] {
	claim := &children.Declaration[*scope, *corev1.PersistentVolumeClaim]{
		Resource: c.PersistentVolumeClaims(),
		Suffix:   backupSuffix,
		Needs:    []string{nameBackupSecret},
		Hold:     func(p *scope) bool { return !hasBackup(p) }, // the claim stays
		Desired:  func(p *scope) *corev1.PersistentVolumeClaim { return desiredBackupClaim(p.db) },
		Keep:     func(_ *scope, desired, live *corev1.PersistentVolumeClaim) { claims.KeepSize(desired, live) },
		Applied:  func(p *scope, live *corev1.PersistentVolumeClaim) { p.backup.claim = live },
		Yielded:  [][]string{{"spec", "storageClassName"}},
		Outlives: true,
	}
	r.backups = &children.Declaration[*scope, *appsv1.Deployment]{
		Resource: c.Deployments(),
		Suffix:   backupSuffix,
		Needs:    []string{nameBackupClaim},
		When:     hasBackup,
		Hold: func(p *scope) bool {
			return hasBackup(p) && (p.backup.deployment == nil || p.backup.secret == nil)
		},
		Desired: func(p *scope) *appsv1.Deployment { return p.backup.deployment },
		Yielded: [][]string{pods.RestartedAt},
	}
	return []children.Child[*scope]{
		wrapped[*corev1.PersistentVolumeClaim]{claim, r.tolerate(nameBackupClaim)},
		wrapped[*appsv1.Deployment]{r.backups, r.tolerate("Deployment" + backupSuffix)},
	}
}

// tolerate returns a function that applies a child for the backup by calling ensure. If the child cannot be applied,
// for example because of a quota, or because another object has its name, the function sets p.backup.problem and
// continues, because the server runs. An attempt that was rejected is made again after some minutes.
func (r *reconciler) tolerate(part string) func(context.Context, *scope, func(context.Context, *scope) error) error {
	return func(ctx context.Context, p *scope, ensure func(context.Context, *scope) error) error {
		attempt := strconv.FormatInt(p.db.Generation, 10)
		if last, found := r.rejections.Recent(p.db.UID, part, attempt); found {
			p.backup.problem = &controller.Note{Reason: controller.ReasonOf(last.Err), Message: last.Err.Error()}
			return nil
		}
		err := ensure(ctx, p)
		switch {
		case err == nil || isTransient(err):
			return err
		case isRejected(err):
			r.rejections.Note(p.db.UID, part, attempt, err, pods.ShortestRejection, problemRetry)
		}
		p.backup.problem = &controller.Note{Reason: controller.ReasonOf(err), Message: err.Error()}
		return nil
	}
}

// isTransient reports whether an error concerns more than one child, or goes away by itself.
func isTransient(err error) bool {
	return errors.Is(err, controller.ErrDeletionNotObserved) || errors.Is(err, context.Canceled) ||
		errors.As(err, new(net.Error)) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err)
}

// backupSecret declares the Secret of the backup.
func (r *reconciler) backupSecret(c kinds.Cluster) children.Child[*scope] {
	secret := &children.Declaration[*scope, *corev1.Secret]{
		Resource: c.Secrets(),
		Suffix:   backupSuffix,
		Needs:    []string{nameEncryption},
		When:     hasBackup,
		Desired: func(p *scope) *corev1.Secret {
			last, _ := r.lastReading(p.db) // so that a deleted Secret requests no base backup
			return desiredBackupSecret(p.db, p.encryption, cmp.Or(last.backup.report.request, newRequest(r.clock.Now())))
		},
		Keep: func(p *scope, desired, live *corev1.Secret) {
			p.keepBackup(desired, live, r.clock.Now())
		},
		Applied: func(p *scope, live *corev1.Secret) { p.backup.secret = live },
	}
	return wrapped[*corev1.Secret]{secret, r.tolerate(nameBackupSecret)}
}

// prepareBackup sets the Deployment of the backup. If spec.backup.podTemplate is invalid, the Deployment stays as it
// is.
func (r *reconciler) prepareBackup(p *scope) {
	if !hasBackup(p) {
		return
	}
	replicas := int32(1)
	if p.restore != nil && p.restore.own { // the volume may be mounted on a single node only
		replicas = 0
	}
	deployment, err := desiredBackup(p.db, r.image, replicas)
	if err != nil {
		note := messageBackupPodTemplate.Note(err)
		p.backup.problem = &note
	}
	p.backup.deployment = deployment
}

// Requests of base backups are the times of the requests, in seconds since 1970 and base 36: a report of the backup
// has few characters.

func newRequest(now time.Time) string { return strconv.FormatInt(now.Unix(), 36) }

// requestedAt returns the time of a request. It returns false if the request is not valid, or is in the future.
func requestedAt(request string, now time.Time) (at time.Time, valid bool) {
	seconds, err := strconv.ParseInt(request, 36, 64)
	at = time.Unix(seconds, 0)
	return at, err == nil && !at.After(now.Add(maxSkew))
}

// keepBackup keeps the password and the request of the live Secret, unless another base backup is due.
func (p *scope) keepBackup(desired, live *corev1.Secret, now time.Time) {
	if password := live.Data[keyBackupPassword]; len(password) > 0 {
		desired.Data[keyBackupPassword] = password
	}
	request, digest := live.Data[keyBackupRequest], live.Data[keyBackupRequested]
	if wanted := desired.Data[keyBackupRequested]; len(wanted) > 0 && !bytes.Equal(wanted, digest) {
		desired.Data[keyBackupRequest] = []byte(newRequest(now))
		return
	}
	if len(digest) > 0 {
		desired.Data[keyBackupRequested] = digest
	}
	at, valid := requestedAt(string(request), now)
	next, problem := nextBackup(p.db.Spec.Backup.Schedule, at)
	if problem != nil {
		note := messageBackupSchedule.Note(p.db.Spec.Backup.Schedule, problem)
		p.backup.problem = &note
	}
	if !valid || !next.IsZero() && !now.Before(next) {
		desired.Data[keyBackupRequest] = []byte(newRequest(now))
		return
	}
	desired.Data[keyBackupRequest] = request
	if !next.IsZero() {
		p.backup.next = next.Sub(now)
	}
}

// nextBackup returns the time of the next base backup after a time. It returns the zero time if the schedule names a
// date that does not exist.
func nextBackup(schedule string, after time.Time) (next time.Time, err error) {
	parsed, err := cron.ParseStandard(schedule)
	if err != nil {
		return next, err
	}
	return parsed.Next(after.UTC()), nil
}

// digestOf returns a digest of the value of an annotation, or "" for no value.
func digestOf(value string) string {
	if value == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])[:digestLength]
}
