package platform

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/children"
	"windlass.dev/windlass/pkg/controller/internal/references"
)

// reconciler is the kind Platform.
type reconciler struct {
	kinds      kinds
	namespaces references.Known
	guard      *controller.Guard
	refusals   *refusals
	// create makes a namespace.
	create func(context.Context, *corev1.Namespace, metav1.CreateOptions) (*corev1.Namespace, error)
	// live reads a Platform from the API server.
	live func(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.Platform, error)
}

// pass is what the steps of one pass hand on.
type pass struct {
	platform   *v1alpha1.Platform
	owner      children.Owner
	components []*component
	plan       *plan
	// homeless is what is wrong with the namespace.
	homeless error
	// confirmed says that the API server has told that the Platform is as it is here.
	confirmed bool
	// deleted tells of a child whether it was deleted, whatever the cache says.
	deleted func(child types.UID) bool
}

// newPass looks at what there is. All that is there is changed only once it is confirmed
// that the Platform says so still.
func (r *reconciler) newPass(platform *v1alpha1.Platform) (*pass, error) {
	p := &pass{platform: platform, owner: children.Owner{Object: platform, Kind: groupVersionKind}}
	p.owner.Confirm = func(ctx context.Context) error { return r.confirm(ctx, p) }
	p.deleted = func(child types.UID) bool { return r.guard.IsDeleted(keyOf(platform), child) }
	var err error
	if p.components, err = r.look(p); err != nil {
		return nil, err
	}
	facts := make([]*fact, len(p.components))
	for i, c := range p.components {
		facts[i] = &c.fact
	}
	p.plan = newPlan(facts)
	return p, nil
}

func keyOf(platform *v1alpha1.Platform) controller.Key { return controller.Key{Name: platform.Name} }

// Reconcile implements controller.Reconciler. A component that fails holds up only those
// that depend on it.
func (r *reconciler) Reconcile(ctx context.Context, platform *v1alpha1.Platform) (controller.Result, error) {
	p, err := r.newPass(platform)
	if err != nil {
		return controller.Result{}, err
	}
	if err := p.check(); err != nil {
		setRefused(platform, p.components)
		return controller.Result{}, err
	}
	p.homeless = r.namespace(ctx, p)
	p.plan.homeless = p.homeless != nil
	err = controller.Worst(p.homeless, r.carryOut(ctx, p))
	if setStatus(platform, p.components, p.homeless, err) {
		err = controller.Unstalled(err) // the rest goes on
	}
	return controller.Result{}, err
}

// check refuses what no order can be found for.
func (p *pass) check() error {
	for i := range p.platform.Spec.Components {
		if spec := &p.platform.Spec.Components[i]; kindOf(spec) == "" {
			return controller.Terminal(controller.WithReason(reasonInvalid, fmt.Errorf("component %s is none of app, database, externalDatabase and at", spec.Name)))
		}
	}
	for _, f := range p.plan.facts {
		for _, name := range f.needs {
			if f.listed && p.plan.listed[name] == nil {
				return controller.Terminal(controller.WithReason(reasonInvalid, fmt.Errorf("component %s depends on %s, which there is not; take it out of dependsOn", f.name, name)))
			}
		}
	}
	if _, cycle := inOrder(p.plan.facts); cycle != nil {
		return controller.Terminal(controller.WithReason(reasonCycle, fmt.Errorf(
			"components depend on each other in a cycle, so that none of them can be the first: %s; take one out of dependsOn of the one before it", strings.Join(append(cycle, cycle[0]), " -> "))))
	}
	return nil
}

// namespace makes the namespace if there is none.
func (r *reconciler) namespace(ctx context.Context, p *pass) error {
	name := p.platform.Spec.Namespace
	known, err := r.namespaces.Get("", name)
	switch {
	case err == nil && known.GetDeletionTimestamp() != nil:
		return namespaceGoes(name)
	case err == nil:
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading Namespace %s from the cache: %w", name, err)
	}
	if err := r.refusals.recent(p.platform.UID, noComponent, attempt{}); err != nil {
		return explainNamespace(name, err)
	}
	made, err := r.create(ctx, desiredNamespace(p.platform), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // it, or its end, is about to be in the cache
	case err != nil:
		r.refusals.note(p.platform.UID, noComponent, attempt{}, err)
		return explainNamespace(name, err)
	}
	r.guard.Wrote(keyOf(p.platform), r.namespaces.Informer().GetStore(), made.ResourceVersion)
	return nil
}

// carryOut does with each component what comes next, and returns the worst of what went
// wrong.
func (r *reconciler) carryOut(ctx context.Context, p *pass) error {
	var errs []error
	for _, c := range p.inOrder() {
		c.step = p.plan.next(&c.fact)
		err := r.do(ctx, p, c)
		if err == nil {
			continue
		}
		c.failed = true
		err = explain(p.platform, c, err)
		if !controller.Quiet(err) {
			c.err = err
		}
		errs = append(errs, err)
	}
	return controller.Worst(errs...)
}

// do takes one step.
func (r *reconciler) do(ctx context.Context, p *pass, c *component) error {
	child, err := c.child, error(nil)
	switch c.step.verb {
	case keep:
		child, err = r.keep(ctx, p, c)
	case release:
		child, err = c.kind.release(ctx, p.owner, c.child)
	case reclaim:
		child, err = c.kind.reclaim(ctx, p.owner, c.child)
	case remove:
		p.confirmed = false // for each, since what is deleted is gone
		err = c.kind.remove(ctx, p.owner, c.child)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	c.observe(p, child)
	return nil
}

// keep makes a child what is written, unless the API server has just refused that.
func (r *reconciler) keep(ctx context.Context, p *pass, c *component) (controller.Object, error) {
	sends := attempt{platform: p.platform.Generation}
	if c.child != nil {
		sends.child = c.child.GetGeneration()
	}
	if err := r.refusals.recent(p.platform.UID, c.name, sends); err != nil {
		return nil, err
	}
	child, err := c.kind.ensure(ctx, p.owner, desiredMeta(p.platform, c.spec), c.spec)
	if err != nil {
		r.refusals.note(p.platform.UID, c.name, sends, err)
	}
	return child, err
}

// unconfirmedRetry is when a Platform is looked at again of which the cache is behind.
const unconfirmedRetry = time.Second

// confirm asks the API server whether the Platform says still what the cache knows: once
// in a pass, and before each deletion.
func (r *reconciler) confirm(ctx context.Context, p *pass) error {
	if p.confirmed {
		return nil
	}
	live, err := r.live(ctx, p.platform.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return controller.Postpone(unconfirmedRetry)
	case err != nil:
		return fmt.Errorf("reading Platform %s before a component is changed: %w", p.platform.Name, err)
	case live.UID != p.platform.UID, live.Generation != p.platform.Generation,
		(live.DeletionTimestamp == nil) != (p.platform.DeletionTimestamp == nil), orphans(live) != orphans(p.platform):
		return controller.Postpone(unconfirmedRetry)
	}
	p.confirmed = true
	return nil
}

// inOrder are the components so that each comes after those that it needs. Where there
// is no such order, as when a Platform is deleted that has a cycle, it is that of the
// spec: it matters for those that are started.
func (p *pass) inOrder() []*component {
	sorted, cycle := inOrder(p.plan.facts)
	if cycle != nil {
		return p.components
	}
	of := map[*fact]*component{}
	for _, c := range p.components {
		of[&c.fact] = c
	}
	ordered := make([]*component, len(sorted))
	for i, f := range sorted {
		ordered[i] = of[f]
	}
	return ordered
}
