package platform

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
}

func (r *reconciler) newPass(platform *v1alpha1.Platform) (*pass, error) {
	p := &pass{platform: platform, owner: children.Owner{Object: platform, Kind: groupVersionKind}}
	p.owner.Live = func(ctx context.Context) (metav1.Object, error) {
		return r.live(ctx, platform.Name, metav1.GetOptions{})
	}
	var err error
	if p.components, err = r.look(platform, p.owner); err != nil {
		return nil, err
	}
	facts := make([]*fact, len(p.components))
	for i, c := range p.components {
		facts[i] = &c.fact
	}
	p.plan = newPlan(facts)
	return p, nil
}

// Reconcile implements controller.Reconciler. A component that fails holds up only those
// that depend on it.
func (r *reconciler) Reconcile(ctx context.Context, platform *v1alpha1.Platform) (controller.Result, error) {
	p, err := r.newPass(platform)
	if err == nil {
		err = p.check()
	}
	if err != nil {
		setRefused(platform, err)
		return controller.Result{}, err
	}
	p.homeless = r.namespace(ctx, p)
	p.plan.homeless = p.homeless != nil
	err = controller.Worst(p.homeless, r.carryOut(ctx, p))
	setStatus(platform, p.components, p.homeless, err)
	return controller.Result{}, err
}

// check refuses what no order can be found for.
func (p *pass) check() error {
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
	made, err := r.create(ctx, desiredNamespace(p.platform), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // it, or its end, is about to be in the cache
	case apierrors.IsForbidden(err):
		return controller.WithReason(reasonForbidden, fmt.Errorf("creating Namespace %s: %w; create it yourself, or give the operator's account that right", name, err))
	case err != nil:
		return fmt.Errorf("creating Namespace %s: %w", name, err)
	}
	r.guard.Wrote(controller.Key{Name: p.platform.Name}, r.namespaces.Informer().GetStore(), made.ResourceVersion)
	return nil
}

// carryOut does with each component what comes next, and returns the worst of what went
// wrong.
func (r *reconciler) carryOut(ctx context.Context, p *pass) error {
	var errs []error
	for _, c := range p.inOrder() {
		c.step = p.plan.next(&c.fact)
		if err := r.do(ctx, p, c); err != nil {
			c.err = explain(p.platform, c, err)
			errs = append(errs, c.err)
		}
	}
	return controller.Worst(errs...)
}

// do takes one step.
func (r *reconciler) do(ctx context.Context, p *pass, c *component) error {
	child, err := c.child, error(nil)
	switch c.step.verb {
	case keep:
		child, err = c.kind.ensure(ctx, p.owner, desiredMeta(p.platform, c.spec), c.spec)
	case release:
		child, err = c.kind.release(ctx, p.owner, c.child)
	case remove:
		if err := r.confirm(ctx, p); err != nil {
			return err
		}
		if err := c.kind.remove(ctx, p.owner, c.child); err != nil {
			return err
		}
		c.going = true
		return nil
	}
	if err != nil {
		return err
	}
	c.observe(p.owner, child)
	return nil
}

// unconfirmedRetry is when a Platform is looked at again of which the cache is behind.
const unconfirmedRetry = time.Second

// confirm asks the API server, once a pass, whether the Platform says still what the
// cache knows: no precondition on a child can tell, and what is deleted is gone.
func (r *reconciler) confirm(ctx context.Context, p *pass) error {
	if p.confirmed {
		return nil
	}
	live, err := r.live(ctx, p.platform.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading Platform %s before a component is removed: %w", p.platform.Name, err)
	}
	if err != nil || live.UID != p.platform.UID || live.Generation != p.platform.Generation || orphans(live) != orphans(p.platform) {
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
