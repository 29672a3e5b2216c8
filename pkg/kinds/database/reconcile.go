package database

import (
	"cmp"
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/certificates"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	windlassclient "windlass.dev/windlass/pkg/generated/clientset/versioned/typed/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/claims"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

const (
	// deletionRecheck is how often a Database is reconciled while its claim is being deleted.
	deletionRecheck = 5 * time.Second
	// growthRetry is how often a rejected growth of a volume is retried. The storage class may allow the growth later.
	growthRetry = 5 * time.Minute
	// problemRetry is how often a Database with a problem is reconciled that does not stop the other steps, such as
	// settings that the server has rejected.
	problemRetry = 5 * time.Minute
)

// reconciler has the caches, the clients and the options that the steps of a reconcile need.
type reconciler struct {
	// certificate, connection and settings declare the Secrets.
	certificate, connection, settings *children.Declaration[*scope, *corev1.Secret]
	// named reads the Secrets that spec.tls names.
	named       *namedCertificates
	claim       *children.Declaration[*scope, *corev1.PersistentVolumeClaim]
	statefulSet *children.Declaration[*scope, *appsv1.StatefulSet]
	// backups declares the Deployment of the backup.
	backups *children.Declaration[*scope, *appsv1.Deployment]

	// pod reads a Pod from the cache, which podStore fills.
	pod      func(namespace, name string) (*corev1.Pod, error)
	podStore controller.Store
	// databases reads a Database from the API server before the operator deletes its data.
	databases windlassclient.DatabasesGetter
	pods      coreclient.PodsGetter
	// rejections remembers the rejected growths of volumes, each with the desired size.
	rejections *controller.Rejections[string]
	// absences has the absence of each missing Pod, by the UID of its Database.
	absences *utilcache.Expiring
	// readings has the last reading of each volume, by the UID of its Database.
	readings *utilcache.Expiring
	// connector is Options.Connector.
	connector Connector
	// users finds the known users of the previous login.
	users  credentials.Users
	events controller.EventRecorder
	// image is Options.Image with its default.
	image string
	clock clock.PassiveClock
}

// scope holds the state that the steps of one reconcile share.
type scope struct {
	children.Owner
	db *v1alpha1.Database
	// encryption is what the server and its clients need for TLS.
	encryption encryption
	// issued is the content of the Secret with the certificate that the operator has issued.
	issued certificates.Content
	// cannotEncrypt says why the server keeps its previous certificate, or is nil. The steps continue in both cases.
	cannotEncrypt error
	// notLoaded is an error if the server has the newest settings, but not the newest certificate, and nil otherwise.
	notLoaded  error
	secret     *corev1.Secret // the connection Secret
	settings   *corev1.Secret // the settings Secret
	claim      *corev1.PersistentVolumeClaim
	cannotGrow error // why the claim cannot grow to spec.storage.size, or nil; the steps continue in both cases
	reading    reading
	// growthRejected is why the API server rejects the growth of a volume that is nearly full, or nil.
	growthRejected error
	// template is the Pod template to apply: the desired template, the previous one if the desired template is invalid or
	// rejected, or nil to leave the StatefulSet as it is.
	template *corev1.PodTemplateSpec
	// cannotChange says why the StatefulSet does not get the Pod template in the spec, or is nil. The steps continue in
	// both cases.
	cannotChange error
	// retryChange is the time until a template that the API server has rejected is tried again.
	retryChange time.Duration
	statefulSet *appsv1.StatefulSet
	pod         *corev1.Pod // the Pod of the StatefulSet, or nil
	absence     *absence    // the absence of the Pod, or nil
	// settling is the time until the operator checks again whether the server has its settings. 0 means that the server
	// has the settings, or that the operator cannot know more.
	settling time.Duration
	// proven is true if the server accepts the next password of a rotation.
	proven   bool
	logins   logins
	rotation rotation
	// restore is the restore that the StatefulSet carries out, or nil.
	restore *restore
	backup  backup
}

func newScope(db *v1alpha1.Database, owner children.Owner) *scope {
	owner.ChildLabels, owner.ChildAnnotations = db.Spec.Metadata.Maps()
	return &scope{Owner: owner, db: db}
}

// finish sets the status, and returns the result of the reconcile. err is the error of the children.
func (r *reconciler) finish(p *scope, err error) (controller.Result, error) {
	r.setBackup(p)
	if err != nil {
		err = controller.Join(p.cannotEncrypt, p.volumeFull(), err)
		setBlocked(p.db, err)
		return controller.Result{}, err
	}
	now := r.clock.Now()
	again := pods.Earliest(pods.Earliest(setProgress(p, now), p.setCredentials()), p.readAgain(now))
	again = pods.Earliest(again, p.backup.next)
	if err = p.problems(again); err != nil {
		setBlocked(p.db, err)
	}
	return controller.Result{RequeueAfter: again, Check: true}, err
}

// problems returns the problems that do not stop the steps, joined. again is the time after which a step is due, which
// a problem must not delay.
func (p *scope) problems(again time.Duration) error {
	retry := pods.Earliest(again, cmp.Or(p.retryChange, problemRetry))
	var all []error
	for _, problem := range []error{
		p.volumeFull(), p.cannotEncrypt, p.notLoaded, p.cannotChange, p.cannotGrow, settingsProblem(p.db),
	} {
		switch {
		case isRejected(problem): // which a policy may have caused that is about to change
			all = append(all, controller.Unstalled(controller.Stalled(problem, retry)))
		case problem != nil:
			all = append(all, controller.Stalled(problem, retry))
		}
	}
	return controller.Join(all...)
}

// settingsProblem returns an error if the server runs with its previous settings, because it could not apply the newest
// ones.
func settingsProblem(db *v1alpha1.Database) error {
	if db.Status.Server == nil || db.Status.Server.Problem == "" {
		return nil
	}
	return messageSettingsRejected.Error(db.Status.Server.Problem)
}

// applyClaim applies the claim by calling ensure. A previous Database of the same name may have left the claim. If the
// API server rejects the growth of the volume, applyClaim sets p.cannotGrow and continues.
func (r *reconciler) applyClaim(ctx context.Context, p *scope, ensure func(context.Context, *scope) error) error {
	cached, err := r.checkVolume(p)
	if err != nil {
		return err
	}
	size := p.db.Spec.Storage.Size
	if last, found := r.rejections.Recent(p.db.UID, "", size.String()); found && cached != nil {
		p.claim, p.cannotGrow = cached, last.Err // so the desired claim has the current size
	}
	err = ensure(ctx, p)
	rejected := apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
	if rejected && cached != nil && claims.Requested(cached).Cmp(size) != 0 {
		p.claim, p.cannotGrow = cached, controller.Stalled(messageCannotGrow.Error(claims.Size(cached), err), growthRetry)
		r.rejections.Note(p.db.UID, "", size.String(), p.cannotGrow, growthRetry, growthRetry)
		err = nil
	}
	if err != nil {
		return err
	}
	p.db.Status.Storage = claims.Size(p.claim)
	return checkClass(p.db, p.claim)
}

// checkVolume returns the cached claim, or nil. It returns an error if the claim has another storage class, or is being
// deleted although the StatefulSet exists. In the latter case, no further step may replace the Pod, because the data is
// lost when the Pod stops.
func (r *reconciler) checkVolume(p *scope) (*corev1.PersistentVolumeClaim, error) {
	claim, err := r.claim.Type().Cache.Get(p.db.Namespace, p.db.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading PersistentVolumeClaim %s/%s from the cache: %w", p.db.Namespace, p.db.Name, err)
	}
	if _, err := r.statefulSet.Type().Cache.Get(p.db.Namespace, p.db.Name); err == nil && claim.DeletionTimestamp != nil {
		return nil, controller.Stalled(messageVolumeDeleted.Error(claim.Name), deletionRecheck)
	}
	return claim, checkClass(p.db, claim)
}

// server executes the steps after the StatefulSet and the settings were applied. The steps update the Pod and the
// server in it, and observe both.
func (r *reconciler) server(ctx context.Context, p *scope) error {
	for _, step := range []func(context.Context, *scope) error{
		r.findPod, r.missing, r.replace, r.notify, r.observe, r.move,
	} {
		if err := step(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// findPod sets p.pod to the cached Pod of the StatefulSet, if there is one.
func (r *reconciler) findPod(_ context.Context, p *scope) error {
	pod, err := r.pod(p.db.Namespace, p.statefulSet.Name+"-0")
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(pod, p.statefulSet) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Pod %s/%s-0 from the cache: %w", p.db.Namespace, p.statefulSet.Name, err)
	}
	p.pod = pod
	return nil
}

// replace deletes a Pod that has a previous template and does not start. In some versions of Kubernetes, the
// StatefulSet controller waits for such a Pod forever (kubernetes/kubernetes#67250, #137409).
func (r *reconciler) replace(ctx context.Context, p *scope) error {
	pod, newest := p.pod, p.statefulSet.Status.UpdateRevision
	if pod == nil || pod.DeletionTimestamp != nil || newest == "" ||
		p.statefulSet.Status.ObservedGeneration < p.statefulSet.Generation ||
		pod.Labels[appsv1.ControllerRevisionHashLabelKey] == newest || !isStuck(p.db, pod, r.clock.Now()) {
		return nil
	}
	err := r.pods.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Pod %s/%s, which does not start: %w", pod.Namespace, pod.Name, err)
	}
	p.pod = nil
	return nil
}
