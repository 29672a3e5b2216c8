package platform

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/references"
)

// reconciler is the kind Platform.
type reconciler struct {
	kinds      childKinds
	namespaces references.Known
	tracker    *controller.Tracker
	refusals   *controller.Refusals[attempt]
	clock      clock.PassiveClock
	// homes makes and reads namespaces.
	homes coreclient.NamespaceInterface
	// reserved are the namespaces of the operator itself.
	reserved []string
	// live reads a Platform from the API server.
	live func(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.Platform, error)
}

// scope is what the steps of one reconcile share.
type scope struct {
	platform   *v1alpha1.Platform
	owner      children.Owner
	components []*component
	plan       *plan
	// cycle are components for which there is no order.
	cycle []string
	// homeless is what is wrong with the namespace.
	homeless error
	// ordered are the components so that each comes after those that it needs.
	ordered []*component
	// confirmedUntil is how long it counts that the API server has told that the Platform
	// is as it is here, and unconfirmed why it has not.
	confirmedUntil time.Time
	unconfirmed    error
	// live is the Platform as the API server has told it last.
	live *v1alpha1.Platform
}

// newScope looks at what there is. All that is there is changed only once it is confirmed
// that the Platform says so still.
func (r *reconciler) newScope(ctx context.Context, platform *v1alpha1.Platform) (*scope, error) {
	p := &scope{platform: platform, owner: children.Owner{Object: platform, Kind: groupVersionKind}}
	p.owner.Confirm = func(ctx context.Context) error { return r.confirm(ctx, p) }
	var err error
	if p.components, err = r.look(ctx, p); err != nil {
		return nil, err
	}
	facts, of := make([]*fact, len(p.components)), map[*fact]*component{}
	for i, c := range p.components {
		facts[i], of[&c.fact] = &c.fact, c
	}
	p.plan = newPlan(facts)
	sorted, cycle := p.plan.inOrder()
	if cycle != nil {
		p.cycle, sorted = cycle, facts // of no matter, since nothing is started
	}
	for _, f := range sorted {
		p.ordered = append(p.ordered, of[f])
	}
	return p, nil
}

func keyOf(platform *v1alpha1.Platform) controller.Key { return controller.Key{Name: platform.Name} }

// Reconcile implements controller.Reconciler. A component that fails holds up only those
// that depend on it. The status lists a component before its child is made: a process that
// dies in between, or whose status write fails, leaves no child that nobody knows of.
func (r *reconciler) Reconcile(ctx context.Context, platform *v1alpha1.Platform) (controller.Result, error) {
	if platform.Status.NamespaceUID == nil && platform.Status.ObservedGeneration == 0 {
		platform.Status.NamespaceUID = ptr.To[types.UID]("")
	}
	p, err := r.newScope(ctx, platform)
	if err != nil {
		return controller.Result{}, err
	}
	if err := r.check(p); err != nil {
		setRefused(platform, p.components)
		return controller.Result{}, err
	}
	p.homeless = r.namespace(ctx, p)
	p.plan.homeless = p.homeless != nil
	if p.homeless == nil && p.announces() {
		setStatus(platform, p.components, nil, nil)
		return controller.Result{RequeueAfter: announcedRetry}, nil
	}
	err = controller.Worst(p.homeless, r.carryOut(ctx, p))
	if setStatus(platform, p.components, p.homeless, err) {
		err = controller.Unstalled(err) // the rest goes on
	}
	if err == nil && slices.ContainsFunc(p.components, func(c *component) bool { return c.step.verb == announce }) {
		return controller.Result{RequeueAfter: announcedRetry}, nil // what it waited for has become Ready
	}
	return controller.Result{}, err
}

// announcedRetry is when a Platform is looked at again whose status lists new components.
const announcedRetry = time.Millisecond

// announces decides what comes next for each component, and tells whether one must be listed
// in the status before its child is made.
func (p *scope) announces() (any bool) {
	for _, c := range p.components {
		c.step = p.plan.next(&c.fact)
		any = any || c.step.verb == announce
	}
	return any
}

// check refuses a namespace that no Platform may use, and what no order can be found for.
func (r *reconciler) check(p *scope) error {
	if err := checkNamespace(p.platform.Spec.Namespace, r.reserved); err != nil {
		return err
	}
	for i := range p.platform.Spec.Components {
		if spec := &p.platform.Spec.Components[i]; kindOf(spec) == "" {
			return controller.Terminal(controller.WithReason(reasonInvalid, fmt.Errorf("component %q has none of app, database, externalDatabase and at", spec.Name)))
		}
	}
	for _, f := range p.plan.facts {
		for _, name := range f.needs {
			if f.listed && p.plan.listed[name] == nil {
				return controller.Terminal(controller.WithReason(reasonInvalid, fmt.Errorf("component %q depends on unknown component %q; remove it from dependsOn", f.name, name)))
			}
		}
	}
	if cycle := p.cycle; cycle != nil {
		return controller.Terminal(controller.WithReason(reasonCycle, fmt.Errorf(
			"components depend on each other in a cycle, so that none of them can be the first: %s; take one out of dependsOn of the one before it", strings.Join(append(cycle, cycle[0]), " -> "))))
	}
	return nil
}

// carryOut does with each component what comes next, and returns the worst of what went
// wrong.
func (r *reconciler) carryOut(ctx context.Context, p *scope) error {
	var errs []error
	for _, c := range p.ordered {
		c.step = p.plan.next(&c.fact)
		err := r.do(ctx, p, c)
		if err == nil {
			continue
		}
		c.failed, c.ready = true, false // it is not what is written
		err = explain(p.platform, c, err)
		if !controller.Quiet(err) {
			c.err = err
		}
		errs = append(errs, err)
	}
	return controller.Worst(errs...)
}

// do takes one step, unless the API server has just refused that.
func (r *reconciler) do(ctx context.Context, p *scope, c *component) error {
	if !c.step.verb.acts() {
		return nil
	}
	of, tries := c.kind.name()+"/"+c.name, attemptOf(p.platform, c)
	if last, found := r.refusals.Recent(p.platform.UID, of, tries); found {
		return last.Err
	}
	child, err := r.act(ctx, p, c)
	switch {
	case apierrors.IsNotFound(err) && c.step.verb == release:
		child = nil // it has gone by itself
	case err != nil:
		r.noteRefusal(p.platform, of, tries, err)
		return err
	}
	c.observe(p, child)
	return nil
}

// act does what a step says, and returns the child as it is then.
func (r *reconciler) act(ctx context.Context, p *scope, c *component) (controller.Object, error) {
	switch c.step.verb {
	case release:
		return c.kind.release(ctx, p.owner, c.child)
	case reclaim:
		return c.kind.reclaim(ctx, p.owner, c.child)
	case remove:
		p.confirmedUntil = time.Time{} // each is confirmed, since what is deleted is gone
		return c.child, c.kind.remove(ctx, p.owner, c.child)
	}
	if c.there {
		return c.kind.update(ctx, p.owner, desiredMeta(p.platform, c.spec), c.spec)
	}
	// What is made by an old list may outlive the Platform, and an At runs a command.
	if err := r.confirm(ctx, p); err != nil {
		return nil, err
	}
	return c.kind.ensure(ctx, p.owner, desiredMeta(p.platform, c.spec), c.spec)
}

// unconfirmedRetry is when a Platform is looked at again of which the cache is behind.
const unconfirmedRetry = time.Second

// confirmedFor is how long a confirmation counts.
const confirmedFor = time.Second

// confirm asks the API server whether the Platform says still what the cache knows: once
// a second before a child is made or changed, and before each deletion and the creation of
// the namespace. Once it has changed, every further call in the same reconcile fails.
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

// sameSpec tells whether two versions of a Platform ask for the same.
func sameSpec(a, b *v1alpha1.Platform) bool {
	type asks struct {
		uid                        types.UID
		generation                 int64
		deleted, orphans, isPaused bool
	}
	of := func(p *v1alpha1.Platform) asks {
		return asks{p.UID, p.Generation, p.DeletionTimestamp != nil, orphans(p), p.Annotations[controller.PausedAnnotation] == "true"}
	}
	return of(a) == of(b)
}
