package children

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
)

// Child declares a part of a reconcile: an object that each owner of a kind owns (Declaration), or a function (Step). S
// is the kind's Scope.
type Child[S Scope] interface {
	// Bind returns the step that applies the child. tracker records the writes of the step. Declare calls Bind once.
	Bind(tracker *controller.Tracker) Step[S]
}

// Step applies a child. A Step is also a Child, for a part of a reconcile that is not an object of its own. Such a Step
// can use the Type of a Declaration.
type Step[S Scope] struct {
	// Name identifies the child among the children of the kind.
	Name string
	// Needs are names of children that are declared before this one. The child is applied only if they were applied.
	Needs []string
	// Owned is the informer of the objects that the step writes. Nil means that the step writes no objects that the owner
	// controls.
	Owned cache.SharedIndexInformer
	// References are other objects whose events concern the owner.
	References []controller.Reference
	// Deletes, if it is set, reports whether the child is not desired. Such a child is deleted after all desired children
	// were applied, and after the children that need it were deleted.
	Deletes func(s S) bool
	// Apply creates or updates the child, or deletes it if Deletes is true.
	Apply func(ctx context.Context, s S) error

	neededBy []string // the names of the children that need this one
}

// Bind implements Child.
func (s Step[S]) Bind(*controller.Tracker) Step[S] { return s }

// steps are the children of a kind in the order in which they are applied.
type steps[S Scope] []Step[S]

// add adds a step. It returns an error if the name of the step is missing or taken, or if the step needs a child that
// is not declared before it.
func (all steps[S]) add(step Step[S]) (steps[S], error) {
	find := func(name string) int { return slices.IndexFunc(all, func(s Step[S]) bool { return s.Name == name }) }
	if step.Name == "" || step.Apply == nil {
		return nil, fmt.Errorf("child %q lacks its name, Resource, Desired or Apply", step.Name)
	}
	if find(step.Name) >= 0 {
		return nil, fmt.Errorf("two children have the name %s", step.Name)
	}
	for _, name := range step.Needs {
		i := find(name)
		if i < 0 {
			return nil, fmt.Errorf("child %s needs %s, which is not declared before it", step.Name, name)
		}
		all[i].neededBy = append(all[i].neededBy, step.Name)
	}
	return append(all, step), nil
}

// apply applies the children in their order, and then deletes the children that are not desired, in the opposite order.
// It skips a child that needs a failed or skipped child. It also skips the deletion of a child that a failed or skipped
// child needs, because that child may still exist. It joins the errors of all children, and stops at an error that
// every other child would get, too.
func (all steps[S]) apply(ctx context.Context, s S) error {
	var errs []error
	var unfinished []string // names of the children whose Apply, also as a deletion, failed or was skipped
	run := func(step Step[S], after []string) (goOn bool) {
		if slices.ContainsFunc(after, func(name string) bool { return slices.Contains(unfinished, name) }) {
			unfinished = append(unfinished, step.Name)
			return true
		}
		err := step.Apply(ctx, s)
		if err == nil {
			return true
		}
		if errors.Is(err, controller.ErrDeletionNotObserved) {
			errs = nil // the owner may be gone, so other errors do not matter
		}
		errs, unfinished = append(errs, err), append(unfinished, step.Name)
		return !concernsAll(err)
	}
	var deletions steps[S]
	for _, step := range all {
		if step.Deletes != nil && step.Deletes(s) {
			deletions = append(deletions, step)
		} else if !run(step, step.Needs) {
			return controller.Join(errs...)
		}
	}
	for _, step := range slices.Backward(deletions) {
		if !run(step, step.neededBy) {
			break
		}
	}
	return controller.Join(errs...)
}

// concernsAll reports whether each further request would fail like the one that returned err: the owner is gone, its
// namespace is being deleted, the reconcile has ended, or the API server as a whole does not respond. If only an
// admission webhook of one type does not respond, the API server responds with 500, which is none of these codes.
func concernsAll(err error) bool {
	return errors.Is(err, controller.ErrDeletionNotObserved) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) ||
		errors.Is(err, context.Canceled) || errors.As(err, new(net.Error)) || // also context.DeadlineExceeded
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err)
}
