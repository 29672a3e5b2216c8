package children

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/cache/optional"
	"windlass.dev/windlass/pkg/controller"
)

// Object is implemented by the API types of children.
type Object interface {
	metav1.Object
	runtime.Object
}

// Client is the part of a generated client that reads and writes the children in one namespace.
type Client[T Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
	Patch(
		ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string,
	) (T, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Type writes the children of one API type. All fields down to Tracker are required.
type Type[T Object] struct {
	Resource[T]
	// Cache holds the objects with the label controller.ManagedByLabel.
	Cache Cache[T]
	// Tracker records every write.
	Tracker *controller.Tracker
	// Yielded are paths of fields that another client may take over, for example spec.replicas for an autoscaler. Such a
	// field keeps its observed value if it is not desired.
	Yielded [][]string
	// Keep, if it is set, copies the values that the child must not lose, such as a generated password,
	// from live into want. want is a copy of the desired state.
	Keep func(want, live T)
	// Adopt, if it is set, is called before the child is adopted: see AdoptAnnotation. It may change want, or return an
	// error to prevent the adoption. Keep was called before. try sends the adoption as a dry run, with want as the desired
	// state, and returns the response of the API server.
	Adopt func(ctx context.Context, want, live T, try func(want T) (T, error)) error
	// Before, if it is set, is called before a live child is changed. If it returns an error, the child is not
	// changed. The change takes effect only on the version of the child that Before has seen.
	Before func(ctx context.Context, live T) error
	// Outlives is true if the children stay when their owner is deleted. They have no owner reference, so that they are
	// not garbage-collected. They have an annotation with the kind and name of the owner. A later owner of that kind and
	// name uses the children again.
	Outlives bool

	// dryRun is the option dryRun of the writes. Try and adopt set it.
	dryRun []string
}

// Ensure creates the child, or updates it to the desired state want, and returns the result. A
// child that is in the desired state costs no request. want has a namespace and a name, and is not
// changed. initially, if it is not nil, changes the object before it is created.
//
// Ensure returns the errors of the API server, wrapped; a Stalled error if the name is taken or the cluster lacks the
// type; and a WaitFor error while the child is being deleted.
func (t *Type[T]) Ensure(ctx context.Context, owner Owner, want T, initially func(T)) (T, error) {
	live, err := t.cached(ctx, want.GetNamespace(), want.GetName())
	if apierrors.IsNotFound(err) {
		return t.create(ctx, owner, want, initially)
	}
	if err != nil {
		return live, fmt.Errorf("reading %s from the cache: %w", t.describe(want), err)
	}
	return t.update(ctx, owner, want, live)
}

// Try sends the writes of Ensure as dry runs, so that nothing is stored. It does not call Before. It returns the error
// of Ensure, or nil if the API server cannot tell, because an admission webhook does not support dry runs.
func (t Type[T]) Try(ctx context.Context, owner Owner, want T, initially func(T)) error {
	t.dryRun = []string{metav1.DryRunAll}
	_, err := t.Ensure(ctx, owner, want, initially)
	if controller.IsDryRunUnsupported(err) {
		return nil
	}
	return err
}

// Update is Ensure for a child that existed when the reconcile began. If the child was deleted since, Update returns
// ErrDeletionNotObserved. It does not create the child again: a reconcile that found no child might have made other
// decisions.
func (t *Type[T]) Update(ctx context.Context, owner Owner, want T) (T, error) {
	live, err := t.cached(ctx, want.GetNamespace(), want.GetName())
	if apierrors.IsNotFound(err) {
		return live, controller.ErrDeletionNotObserved
	}
	if err != nil {
		return live, fmt.Errorf("reading %s from the cache: %w", t.describe(want), err)
	}
	return t.update(ctx, owner, want, live)
}

// Live reads a child from the API server, for decisions that an outdated cache must not make. It
// returns ErrDeletionNotObserved for a 404 while the cache has the child.
func (t *Type[T]) Live(ctx context.Context, owner Owner, name string) (live T, found bool, err error) {
	live, err = t.Client(owner.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return live, false, t.awaitDeletion(owner, owner.GetNamespace(), name)
	}
	if err != nil {
		return live, false, fmt.Errorf("reading %s %s/%s: %w", t.Kind, owner.GetNamespace(), name, err)
	}
	return live, true, nil
}

// awaitDeletion returns ErrDeletionNotObserved while the cache has a child for which the API server returned
// a 404, unless this process deleted the child.
func (t *Type[T]) awaitDeletion(owner Owner, namespace, name string) error {
	known, err := t.Cache.Get(namespace, name)
	if err == nil && t.owns(owner, known) && !t.IsRemoved(owner, known) {
		return controller.ErrDeletionNotObserved
	}
	return nil
}

func (t *Type[T]) create(ctx context.Context, owner Owner, want T, initially func(T)) (T, error) {
	if owner.Seen() || t.Outlives {
		if err := owner.ConfirmNotDeleted(); err != nil {
			return want, err
		}
	}
	w, err := t.desiredStateOf(t.asChild(owner, want))
	if err != nil {
		return want, fmt.Errorf("preparing %s: %w", t.describe(want), err)
	}
	first := w.object.DeepCopyObject().(T)
	first.SetAnnotations(with(first.GetAnnotations(), RecordAnnotation, w.record))
	if initially != nil {
		initially(first)
	}
	t.Tracker.Sends(owner.key())
	live, err := t.Client(want.GetNamespace()).Create(ctx, first, metav1.CreateOptions{DryRun: t.dryRun})
	if apierrors.IsAlreadyExists(err) {
		return t.claim(ctx, owner, want)
	}
	if apierrors.IsForbidden(err) { // the API server checks a quota before it looks for an object of this name
		if found, getErr := t.Client(want.GetNamespace()).Get(ctx, want.GetName(), metav1.GetOptions{}); getErr == nil &&
			owner.MayAdopt(found) {
			return t.update(ctx, owner, want, found)
		}
	}
	if err != nil {
		return live, t.failed("creating", want, err)
	}
	t.wrote(owner, live)
	t.noteRewrite(owner, w, live)
	return live, nil
}

// claim updates an object that has the name of the child and is not in the cache. The object may still be the child:
// the cache may be outdated, or another client removed ManagedByLabel.
func (t *Type[T]) claim(ctx context.Context, owner Owner, want T) (T, error) {
	live, err := t.Client(want.GetNamespace()).Get(ctx, want.GetName(), metav1.GetOptions{})
	if err != nil {
		return live, fmt.Errorf("reading %s, which already exists: %w", t.describe(want), err)
	}
	return t.update(ctx, owner, want, live)
}

func (t *Type[T]) update(ctx context.Context, owner Owner, want, live T) (T, error) {
	isOwn, marked := t.owns(owner, live), live.GetAnnotations()[AdoptAnnotation] == owner.mark()
	if !isOwn && !owner.MayAdopt(live) {
		return live, t.taken(owner, live)
	}
	if live.GetDeletionTimestamp() != nil {
		return live, terminating(t.Kind, live)
	}
	if why := controller.UnreadableIn(live); t.Custom && why != nil {
		err := fmt.Errorf("comparing %s with its desired state: %s", t.describe(live), why.Message)
		return live, controller.Stalled(controller.WithReason(why.Reason, err), exceededRecheck)
	}
	want = t.asChild(owner, want)
	want, live = withoutFixedData(want, live)
	if t.Keep != nil {
		t.Keep(want, live)
	}
	if marked { // an own child is marked after `kubectl rollout undo` to a revision from before the adoption
		return t.adopt(ctx, owner, want, live, isOwn)
	}
	w, err := t.desiredStateOf(want)
	if err != nil {
		return live, fmt.Errorf("comparing %s with its desired state: %w", t.describe(want), err)
	}
	c, err := t.change(w, live, t.first())
	if err != nil {
		return live, fmt.Errorf("comparing %s with its desired state: %w", t.describe(want), err)
	}
	if c == nil || t.isRewritten(owner, w, live, c) {
		return live, nil
	}
	if !t.Outlives && !metav1.IsControlledBy(live, owner) {
		if err := owner.ConfirmNotDeleted(); err != nil {
			return live, err
		}
	}
	if t.Before != nil && t.dryRun == nil {
		if err := t.Before(ctx, live); err != nil {
			return live, err
		}
	}
	return t.apply(ctx, owner, w, live, c)
}

// apply writes a change. While the API server rejects the result as invalid, apply tries the next merge, because the
// cause may be a field or list item of another client.
func (t *Type[T]) apply(ctx context.Context, owner Owner, w desiredState[T], live T, c *change) (T, error) {
	kind := types.MergePatchType
	if c.merge == mergeItems {
		kind = types.StrategicMergePatchType
	}
	updated, err := t.write(ctx, owner, live, kind, c.patch, "updating")
	if err == nil {
		t.noteRewrite(owner, w, updated)
	}
	if !rejectsField(err) {
		return updated, err
	}
	for m := c.merge + 1; m <= t.last(); m++ {
		next, otherErr := t.change(w, live, m)
		if otherErr == nil && next != nil {
			return t.apply(ctx, owner, w, live, next)
		}
	}
	return updated, err
}

// write sends a patch. doing describes the attempt in errors, for example "updating".
func (t *Type[T]) write(
	ctx context.Context, owner Owner, live T, kind types.PatchType, patch []byte, doing string,
) (T, error) {
	if err := owner.confirm(ctx); err != nil {
		return live, err
	}
	t.Tracker.Sends(owner.key())
	opts := metav1.PatchOptions{DryRun: t.dryRun}
	updated, err := t.Client(live.GetNamespace()).Patch(ctx, live.GetName(), kind, patch, opts)
	if err != nil {
		return live, t.failed(doing, live, err)
	}
	t.wrote(owner, updated)
	return updated, nil
}

// missingRecheck is how often an owner is reconciled whose child is of a type that the cluster lacks.
const missingRecheck = time.Minute

// failed returns the error of a write. doing is the same as for write.
func (t *Type[T]) failed(doing string, child T, err error) error {
	if t.Provider != "" && optional.IsTypeMissing(err) {
		return controller.Stalled(messageTypeMissing.Error(t.Kind, t.Provider), missingRecheck)
	}
	return fmt.Errorf("%s %s: %w", doing, t.describe(child), inOrder(err))
}

// wrote records the response to a write, unless the write was a dry run.
func (t *Type[T]) wrote(owner Owner, response T) {
	if t.dryRun == nil {
		t.Tracker.Wrote(owner.key(), t.Kind, t.Cache, response.GetResourceVersion())
	}
}

func (t *Type[T]) describe(child T) string {
	return fmt.Sprintf("%s %s/%s", t.Kind, child.GetNamespace(), child.GetName())
}
