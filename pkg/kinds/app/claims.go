package app

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/claims"
)

// volumeClaims creates the claims of the volumes of Apps, and lets them grow. A claim outlives its entry in
// spec.volumes, and its App unless its deletionPolicy is Delete (finalize.go).
type volumeClaims struct {
	resource children.Resource[*corev1.PersistentVolumeClaim]
	owned    children.Type[*corev1.PersistentVolumeClaim] // set by Bind
	// apps finds Apps by the keys of their claims.
	apps references.Index
	pods *podCache
	// rejections remembers the sizes that the API server has rejected, by the name of the claim.
	rejections *controller.Rejections[any]
}

// growthRetry is how often the operator tries to let a claim grow after the API server has rejected the new size.
const growthRetry = 5 * time.Minute

func newVolumeClaims(
	c kinds.Cluster, apps cache.SharedIndexInformer, cached *podCache, now clock.PassiveClock,
) (*volumeClaims, error) {
	index, err := references.NewIndex(apps, "claims", func(app *v1alpha1.App) (keys []string) {
		for _, claim := range desiredClaims(app) {
			keys = append(keys, cache.MetaObjectToName(claim).String())
		}
		return keys
	})
	return &volumeClaims{
		resource: c.PersistentVolumeClaims(), apps: index, pods: cached, rejections: controller.NewRejections[any](now),
	}, err
}

// desiredClaims returns the claims of an App. Like the claim of a Database, they have no label
// app.kubernetes.io/instance, by which Argo CD can find objects that it deletes.
func desiredClaims(app *v1alpha1.App) (desired []*corev1.PersistentVolumeClaim) {
	for i := range app.Spec.Volumes {
		v := &app.Spec.Volumes[i]
		if v.Claim == nil {
			continue
		}
		modes := v.Claim.AccessModes
		if len(modes) == 0 {
			modes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		}
		desired = append(desired, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: claimName(app, v), Labels: map[string]string{
				"app.kubernetes.io/name": "app", appLabel: app.Name,
			}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: modes, StorageClassName: v.Claim.StorageClassName,
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: v.Claim.Size},
				},
			},
		})
	}
	return desired
}

// Bind implements children.Child.
func (c *volumeClaims) Bind(tracker *controller.Tracker) children.Step[*scope] {
	c.owned = c.resource.Type(tracker)
	c.owned.Outlives, c.owned.Keep = true, claims.KeepSize
	c.owned.Yielded = [][]string{{"spec", "storageClassName"}} // an existing volume keeps its class
	owners := controller.Reference{Informer: c.resource.Informer, Referrers: func(claim metav1.Object) []controller.Key {
		return c.apps.Find(cache.MetaObjectToName(claim).String())
	}}
	return children.Step[*scope]{Name: nameClaims, References: []controller.Reference{owners}, Apply: c.apply}
}

// apply creates the claims of an App, or updates them.
func (c *volumeClaims) apply(ctx context.Context, p *scope) error {
	for _, desired := range desiredClaims(p.app) {
		if err := c.ensure(ctx, p, desired); err != nil {
			return err
		}
	}
	return nil
}

// ensure applies a claim. If the volume cannot have the desired size, ensure adds the error to p.sizes: the Deployment
// does not depend on the size. A claim that is being deleted stops the Deployment, because its data is lost when the
// last Pod ends.
func (c *volumeClaims) ensure(ctx context.Context, p *scope, desired *corev1.PersistentVolumeClaim) error {
	cached, err := c.owned.Cache.Get(desired.Namespace, desired.Name)
	if apierrors.IsNotFound(err) {
		_, err = c.owned.Ensure(ctx, p.Owner, desired, nil)
		return err
	}
	if err != nil {
		return fmt.Errorf("reading PersistentVolumeClaim %s/%s from the cache: %w", desired.Namespace, desired.Name, err)
	}
	if cached.DeletionTimestamp != nil && p.observed.deployment != nil {
		return controller.Stalled(messageVolumeDeleted.Error(cached.Name), deletionRecheck)
	}
	if c.isInUse(p) {
		return messageVolumeInUse.Wait(deletionRecheck, cached.Name)
	}
	if err := checkKind(desired, cached); err != nil {
		return err
	}
	wanted, has := claims.Requested(desired), claims.Size(cached)
	isChanged := wanted.Cmp(*claims.Requested(cached)) != 0
	last, rejected := c.rejections.Recent(p.app.UID, desired.Name, wanted.String())
	if rejected && isChanged {
		p.sizes = append(p.sizes, last.Err)
		desired.Spec.Resources.Requests[corev1.ResourceStorage] = *claims.Requested(cached)
	}
	_, err = c.owned.Ensure(ctx, p.Owner, desired, nil)
	if (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) && !rejected && isChanged {
		err = controller.Stalled(messageCannotGrow.Error(cached.Name, has, err, has), growthRetry)
		c.rejections.Note(p.app.UID, desired.Name, wanted.String(), err, growthRetry, growthRetry)
		p.sizes = append(p.sizes, err)
		return nil
	}
	return err
}

// isInUse reports whether Pods of a previous App of this name, or of a deleted Deployment, still end. New Pods on the
// same node would write to the volume at the same time.
func (c *volumeClaims) isInUse(p *scope) bool {
	return p.observed.deployment == nil && slices.ContainsFunc(c.pods.podsOf(p.app), func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp != nil
	})
}

// checkKind returns a Stalled error if the claim of a previous App or volume has another storage class or other access
// modes than the desired claim. Neither can be changed.
func checkKind(desired, live *corev1.PersistentVolumeClaim) error {
	class := live.Spec.StorageClassName
	hasClass := desired.Spec.StorageClassName == nil || ptr.Equal(desired.Spec.StorageClassName, class)
	if hasClass && slices.Equal(desired.Spec.AccessModes, live.Spec.AccessModes) {
		return nil
	}
	return controller.Stalled(messageOtherVolume.Error(live.Name, strconv.Quote(ptr.Deref(class, "")),
		fmt.Sprint(live.Spec.AccessModes)), 0)
}

// reportSizes returns the errors about the sizes of the claims.
func reportSizes(_ context.Context, p *scope) error { return controller.Join(p.sizes...) }
