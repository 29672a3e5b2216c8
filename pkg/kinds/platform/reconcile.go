package platform

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/references"
)

// reconciler reconciles Platforms.
type reconciler struct {
	kinds      childKinds
	namespaces references.Known
	tracker    *controller.Tracker
	rejections *controller.Rejections[attempt]
	clock      clock.PassiveClock
	// homes creates and reads namespaces.
	homes coreclient.NamespaceInterface
	// reserved are the namespaces of the operator itself, which no Platform may use.
	reserved []string
	// live reads a Platform from the API server.
	live func(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.Platform, error)
}

// scope holds the state that the steps of one reconcile share.
type scope struct {
	platform   *v1alpha1.Platform
	owner      children.Owner
	components []*component
	plan       *plan
	// cycle names the components in a dependency cycle. It is nil if there is no cycle.
	cycle []string
	// homeless is the error about the namespace, or nil.
	homeless error
	// ordered are the components, each after its dependencies unless there is a cycle.
	ordered []*component
	// confirmedUntil is when the last successful confirm expires. unconfirmed is the error of a failed
	// confirm.
	confirmedUntil time.Time
	unconfirmed    error
	// live is the Platform that confirm last read from the API server.
	live *v1alpha1.Platform
}

// newScope reads the observed state of all components and sorts them. With the owner in the scope, package
// children calls confirm before it changes or deletes an existing child.
func (r *reconciler) newScope(ctx context.Context, platform *v1alpha1.Platform) (*scope, error) {
	p := &scope{platform: platform, owner: children.Owner{Object: platform, Kind: groupVersionKind}}
	p.owner.Confirm = func(ctx context.Context) error { return r.confirm(ctx, p) }
	var err error
	if p.components, err = r.look(ctx, p); err != nil {
		return nil, err
	}
	p.plan = newPlan(p.components)
	if p.ordered, p.cycle = p.plan.inOrder(); p.cycle != nil {
		p.ordered = p.components // the order does not matter, because no component is created
	}
	return p, nil
}

// Reconcile implements controller.Reconciler. A component that fails delays only the components that wait
// for it. The status lists a component before its child is created, so that no child is forgotten if the
// process dies in between or the status write fails.
func (r *reconciler) Reconcile(ctx context.Context, platform *v1alpha1.Platform) (controller.Result, error) {
	p, err := r.newScope(ctx, platform)
	if err != nil {
		return controller.Result{}, err
	}
	if err := r.check(p); err != nil {
		setRejected(platform, p.components)
		return controller.Result{}, err
	}
	p.homeless = r.namespace(ctx, p)
	p.plan.homeless = p.homeless != nil
	err = controller.Worst(p.homeless, r.carryOut(ctx, p))
	if setStatus(platform, p.components, p.homeless, err) {
		err = controller.Unstalled(err) // other components make progress
	}
	if slices.ContainsFunc(p.components, func(c *component) bool { return c.step.verb.storesFirst() }) {
		return controller.Result{RequeueAfter: announcedRetry}, nil // the error of another component does not delay this
	}
	return controller.Result{}, err
}

// announcedRetry is the delay before a Platform with newly listed components is reconciled again.
const announcedRetry = time.Millisecond

// check returns a Stalled error for a namespace that no Platform may use, a component without a kind, an
// unknown dependency, or a dependency cycle.
func (r *reconciler) check(p *scope) error {
	if err := checkNamespace(p.platform.Spec.Namespace, r.reserved); err != nil {
		return err
	}
	for i := range p.platform.Spec.Components {
		if spec := &p.platform.Spec.Components[i]; kindOf(spec) == "" {
			return controller.Stalled(messageEmpty.Error(strconv.Quote(string(spec.Name))), 0)
		}
	}
	for _, c := range p.components {
		for _, name := range c.needs {
			if c.listed && p.plan.listed[name] == nil {
				return controller.Stalled(messageUnknown.Error(strconv.Quote(c.name), strconv.Quote(name)), 0)
			}
		}
	}
	if cycle := p.cycle; cycle != nil {
		return controller.Stalled(messageCycle.Error(strings.Join(append(cycle, cycle[0]), " -> ")), 0)
	}
	return nil
}

// carryOut takes the next step of each component, and returns the worst error.
func (r *reconciler) carryOut(ctx context.Context, p *scope) error {
	var errs []error
	for _, c := range p.ordered {
		c.step = p.plan.next(c)
		err := r.do(ctx, p, c)
		if err == nil {
			continue
		}
		c.failed, c.ready = true, false // the child is not in its desired state
		err = explain(p.platform, c, err)
		if !controller.Quiet(err) {
			c.err = err
		}
		errs = append(errs, err)
	}
	return controller.Worst(errs...)
}

// do takes the step of a component. If the API server has rejected the same step recently, do returns the error of that
// rejection and sends no request.
func (r *reconciler) do(ctx context.Context, p *scope, c *component) error {
	if !c.step.verb.acts() {
		return nil
	}
	of, tries := c.kind.Kind+"/"+c.name, attemptOf(p.platform, c)
	if last, found := r.rejections.Recent(p.platform.UID, of, tries); found {
		return last.Err
	}
	child, err := r.act(ctx, p, c)
	switch {
	case apierrors.IsNotFound(err) && c.step.verb == release:
		child = nil // another client has deleted it
	case err != nil:
		r.noteRejection(p.platform, of, tries, err)
		return err
	}
	c.observe(p, child)
	return nil
}

// act sends the write of a step, and returns the resulting child.
func (r *reconciler) act(ctx context.Context, p *scope, c *component) (controller.Object, error) {
	switch c.step.verb {
	case release:
		return c.kind.Release(ctx, p.owner, c.child)
	case reclaim:
		return c.kind.Reclaim(ctx, p.owner, c.child)
	case remove, rerun:
		p.confirmedUntil = time.Time{} // each deletion is confirmed, because it cannot be undone
		return c.child, c.kind.Remove(ctx, p.owner, c.child)
	}
	if c.there {
		return c.kind.Update(ctx, p.owner, desiredChild(p.platform, c.spec))
	}
	// Confirm the spec first: a child that is created from an outdated spec may outlive the Platform, and if it is an
	// At, its command would run.
	if err := r.confirm(ctx, p); err != nil {
		return nil, err
	}
	return c.kind.Ensure(ctx, p.owner, desiredChild(p.platform, c.spec), nil)
}

// unconfirmedRetry is the delay before a Platform is reconciled again if the cache was outdated.
const unconfirmedRetry = time.Second

// confirmedFor is how long a successful confirm is valid.
const confirmedFor = time.Second

// confirm returns an error unless the API server has the Platform with the cached spec. Before children are
// created or changed, it sends a request at most once a second in each reconcile. It always sends a request
// before a deletion, and before the creation of the namespace. After an error, every further call in the
// same reconcile fails.
func (r *reconciler) confirm(ctx context.Context, p *scope) error {
	if p.unconfirmed != nil || r.clock.Now().Before(p.confirmedUntil) {
		return p.unconfirmed
	}
	live, err := r.live(ctx, p.platform.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && !sameSpec(live, p.platform):
		p.unconfirmed = controller.Postpone(unconfirmedRetry)
	case err != nil:
		p.unconfirmed = fmt.Errorf("reading Platform %s before a component is changed: %w", p.platform.Name, err)
	default:
		p.confirmedUntil, p.live = r.clock.Now().Add(confirmedFor), live
	}
	return p.unconfirmed
}

// sameSpec reports whether two versions of a Platform have the same desired state, including whether it is
// being deleted or paused.
func sameSpec(a, b *v1alpha1.Platform) bool {
	paused := func(p *v1alpha1.Platform) bool { return p.Annotations[controller.PausedAnnotation] == "true" }
	deleted := func(p *v1alpha1.Platform) bool { return p.DeletionTimestamp != nil }
	return a.UID == b.UID && a.Generation == b.Generation && deleted(a) == deleted(b) && orphans(a) == orphans(b) &&
		paused(a) == paused(b)
}
