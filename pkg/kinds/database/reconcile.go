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
	"k8s.io/utils/clock"

	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	windlassclient "windlass.dev/windlass/pkg/generated/clientset/versioned/typed/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

const (
	// deletionRecheck is how often a Database is reconciled while its claim is being deleted.
	deletionRecheck = 5 * time.Second
	// growthRetry is how often a refused growth of a volume is retried, because its storage class may
	// allow it later.
	growthRetry = 5 * time.Minute
	// refusedRetry is how often the operator looks whether the server has applied settings that it refused before.
	refusedRetry = 5 * time.Minute
)

// reconciler reconciles Databases.
type reconciler struct {
	secrets      children.Type[*corev1.Secret] // the connection Secrets
	settings     children.Type[*corev1.Secret] // the settings Secrets
	services     children.Type[*corev1.Service]
	claims       children.Type[*corev1.PersistentVolumeClaim]
	statefulSets children.Type[*appsv1.StatefulSet]

	// pod reads a Pod from the cache, which podStore fills.
	pod      func(namespace, name string) (*corev1.Pod, error)
	podStore controller.Store
	tracker  *controller.Tracker
	// databases reads a Database from the API server before the operator creates or adopts one of its
	// children, or deletes its data.
	databases windlassclient.DatabasesGetter
	pods      coreclient.PodsGetter
	// refusals remembers the refused growths of volumes, each with the desired size.
	refusals *controller.Refusals[string]
	absences *absences
	look     look
	// users finds the known users of the former login.
	users  credentials.Users
	events controller.EventRecorder
	// image is Options.Image with its default.
	image string
	clock clock.PassiveClock
}

// scope holds the state that the steps of one reconcile share.
type scope struct {
	db          *v1alpha1.Database
	owner       children.Owner
	secret      *corev1.Secret // the connection Secret
	settings    *corev1.Secret // the settings Secret
	claim       *corev1.PersistentVolumeClaim
	cannotGrow  error // why the claim cannot grow, or nil; the steps continue in both cases
	statefulSet *appsv1.StatefulSet
	pod         *corev1.Pod // of the StatefulSet, or nil
	absence     *absence    // of the Pod, or nil
	// settling is the time after which the operator looks again whether the server has its settings. 0 means that it has
	// them, as far as the operator can know.
	settling time.Duration
	// proven is true if the server accepts the next password of a rotation.
	proven   bool
	logins   logins
	rotation rotation
}

func newScope(db *v1alpha1.Database) *scope {
	return &scope{db: db, owner: children.Owner{Object: db, Kind: groupVersionKind}}
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, db *v1alpha1.Database) (controller.Result, error) {
	p := newScope(db)
	p.owner.Live = children.Once(func(ctx context.Context) (metav1.Object, error) {
		return r.databases.Databases(db.Namespace).Get(ctx, db.Name, metav1.GetOptions{})
	})
	if err := r.apply(ctx, p); err != nil {
		setBlocked(db, err)
		return controller.Result{}, err
	}
	again := earliest(setProgress(p, r.clock.Now()), p.setCredentials())
	err := cmp.Or(p.cannotGrow, refusal(db))
	if err != nil {
		setBlocked(db, err)
	}
	return controller.Result{RequeueAfter: again, Check: true}, err
}

// earliest returns the shorter of two delays. A delay of 0 means no delay.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// refusal returns an error if the server could not apply settings, with which it continues to run, or nil.
func refusal(db *v1alpha1.Database) error {
	if db.Status.Server == nil || db.Status.Server.Problem == "" {
		return nil
	}
	return controller.Stalled(messageSettingsRefused.Error(db.Status.Server.Problem), refusedRetry)
}

// apply runs the steps of a reconcile in order, until one fails.
func (r *reconciler) apply(ctx context.Context, p *scope) error {
	for _, step := range []func(context.Context, *scope) error{
		r.credentials,
		r.rotate,
		r.serverSettings,
		r.retired,
		r.service,
		r.volume,
		r.server,
		r.findPod,
		r.missing,
		r.replace,
		r.notify,
		r.observe,
		r.move,
	} {
		if err := step(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// credentials creates or updates the Secret, and checks its password. A Secret that has a login and a
// password keeps both.
func (r *reconciler) credentials(ctx context.Context, p *scope) (err error) {
	secrets := r.secretsOf(p.db)
	if p.secret, err = secrets.Ensure(ctx, p.owner, newSecret(p.db), nil); err != nil {
		return err
	}
	p.db.Status.Binding = &v1alpha1.SecretBinding{Name: p.secret.Name}
	return checkPassword(p.secret)
}

// serverSettings creates or updates the settings Secret.
func (r *reconciler) serverSettings(ctx context.Context, p *scope) (err error) {
	p.settings, err = r.settings.Ensure(ctx, p.owner, desiredSettings(p.db, p.logins, r.clock.Now()), nil)
	return err
}

func (r *reconciler) service(ctx context.Context, p *scope) error {
	_, err := r.services.Ensure(ctx, p.owner, desiredService(p.db), nil)
	return err
}

// volume creates or updates the claim, which an earlier Database of the same name may have left. If the API
// server refuses to grow the volume, volume sets p.cannotGrow and returns nil.
func (r *reconciler) volume(ctx context.Context, p *scope) error {
	if err := r.checkVolume(p); err != nil {
		return err
	}
	want, size := desiredClaim(p.db), p.db.Spec.Storage.Size
	if last, found := r.refusals.Recent(p.db.UID, "", size.String()); found {
		p.cannotGrow = last.Err
		r.keepSize(want)
	}
	claim, err := r.claims.Ensure(ctx, p.owner, want, nil)
	if (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) && !sizeOf(claim).IsZero() && sizeOf(claim).Cmp(size) != 0 {
		p.cannotGrow = controller.Stalled(messageCannotGrow.Error(volumeSize(claim), err), growthRetry)
		r.refusals.Note(p.db.UID, "", size.String(), p.cannotGrow, growthRetry, growthRetry)
		err = nil
	}
	if err != nil {
		return err
	}
	p.claim, p.db.Status.Storage = claim, volumeSize(claim)
	return checkClass(p.db, claim)
}

// keepSize sets the size in a desired claim to the size that the cached claim requests.
func (r *reconciler) keepSize(want *corev1.PersistentVolumeClaim) {
	if claim, err := r.claims.Cache.Get(want.Namespace, want.Name); err == nil {
		want.Spec.Resources.Requests[corev1.ResourceStorage] = *sizeOf(claim)
	}
}

// checkVolume returns an error if an existing claim has another storage class, or is being deleted
// although the StatefulSet exists. In the latter case, no further step may replace the Pod, which still
// has the data.
func (r *reconciler) checkVolume(p *scope) error {
	claim, err := r.claims.Cache.Get(p.db.Namespace, p.db.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading PersistentVolumeClaim %s/%s from the cache: %w", p.db.Namespace, p.db.Name, err)
	}
	if _, err := r.statefulSets.Cache.Get(p.db.Namespace, p.db.Name); err == nil && claim.DeletionTimestamp != nil {
		return controller.Stalled(messageVolumeDeleted.Error(claim.Name), deletionRecheck)
	}
	return checkClass(p.db, claim)
}

// server creates or updates the StatefulSet, whose controller replaces the Pod when the template changes.
func (r *reconciler) server(ctx context.Context, p *scope) (err error) {
	sets := r.statefulSets
	sets.Keep = func(want, live *appsv1.StatefulSet) {
		keepTemplate(p.db, want, live)
		keepRetried(want, live)
	}
	p.statefulSet, err = sets.Ensure(ctx, p.owner, desiredStatefulSet(p.db, r.image), nil)
	return err
}

// replace deletes a Pod that has an earlier template and does not start. In some versions of Kubernetes,
// the StatefulSet controller waits for such a Pod forever (kubernetes/kubernetes#67250, #137409).
func (r *reconciler) replace(ctx context.Context, p *scope) error {
	pod, newest := p.pod, p.statefulSet.Status.UpdateRevision
	if pod == nil || pod.DeletionTimestamp != nil || newest == "" || p.statefulSet.Status.ObservedGeneration < p.statefulSet.Generation ||
		pod.Labels[appsv1.ControllerRevisionHashLabelKey] == newest || !isStuck(p.db, pod, r.clock.Now()) {
		return nil
	}
	err := r.pods.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Pod %s/%s, which does not start: %w", pod.Namespace, pod.Name, err)
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
