package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"

	"windlass.dev/windlass/cmd/kubectl-windlass/report"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/app"
)

func newRollback(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	i, to := inspector{streams, config}, int64(0)
	c := &cobra.Command{
		Use:   "rollback app/NAME",
		Short: "Return an App to a previous release",
		Long: "Restore the spec that an App had at a previous revision of its Deployment. Without --to, this is the last " +
			"revision whose Pods were all available. If the App has the spec of that revision, it is the newest revision " +
			"before it with another spec. The command keeps replicas, autoscaling, service, ingress, route, rollout, " +
			"metadata and each deletionPolicy. A component of a Platform cannot be rolled back, and a GitOps tool can revert " +
			"the rollback.",
		Example:           "  kubectl windlass rollback app/web\n  kubectl windlass rollback app/web --to 3",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: i.completeObjects,
		RunE:              func(c *cobra.Command, args []string) error { return i.rollBack(c.Context(), args, to) },
	}
	c.Flags().Int64Var(&to, "to", 0, "Revision of the Deployment to return to. `kubectl rollout history` lists the "+
		"revisions.")
	return c
}

func (i inspector) rollBack(ctx context.Context, args []string, to int64) error {
	found, err := i.named(args)
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0].Mapping.GroupVersionKind.Kind != "App" {
		return errors.New("only an App can be rolled back: name one App")
	}
	obj, ok := found[0].Object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("decoding App %s: it has the type %T", found[0].Name, found[0].Object)
	}
	if owner := metav1.GetControllerOfNoCopy(obj); owner != nil {
		return fmt.Errorf("%s %s owns App %s, and would revert the rollback: change the spec of %s %s instead",
			owner.Kind, owner.Name, obj.GetName(), owner.Kind, owner.Name)
	}
	current := &v1alpha1.App{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, current); err != nil {
		return fmt.Errorf("decoding App %s: %w", obj.GetName(), err)
	}
	sets, err := i.replicaSetsOf(ctx, current)
	if err != nil {
		return err
	}
	fields, _, err := unstructured.NestedMap(obj.Object, "spec")
	if err != nil {
		return err
	}
	target, err := chooseRevision(current, revisionsIn(sets, fields), to)
	if err != nil {
		return err
	}
	obj.Object["spec"] = target.fields
	if err := rollBackLastApplied(obj, target.previous); err != nil {
		return err
	}
	// The resource version of obj is the precondition.
	if _, err := resource.NewHelper(found[0].Client, found[0].Mapping).WithFieldManager("kubectl-windlass").
		Replace(obj.GetNamespace(), obj.GetName(), false, obj); err != nil {
		return fmt.Errorf("changing App %s: %w", obj.GetName(), err)
	}
	report.Lines(i.Out, fmt.Sprintf("app.windlass.dev/%s rolled back to revision %d with image %s",
		obj.GetName(), target.number, target.spec.Image))
	if obj.GetAnnotations()[controller.PausedAnnotation] == "true" {
		report.Lines(i.ErrOut, fmt.Sprintf("App %s is paused, so that the operator does not change its Pods. Run `kubectl "+
			"windlass resume app/%s -n %s`.", obj.GetName(), obj.GetName(), obj.GetNamespace()))
	}
	return nil
}

// rollBackLastApplied rolls back the spec in the annotation of `kubectl apply`, if the App has this annotation. The
// next `kubectl apply` then removes the restored fields that its manifest does not have.
func rollBackLastApplied(obj *unstructured.Unstructured, previous map[string]any) error {
	annotations, applied := obj.GetAnnotations(), map[string]any{}
	if annotations[corev1.LastAppliedConfigAnnotation] == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(annotations[corev1.LastAppliedConfigAnnotation]), &applied); err != nil {
		return fmt.Errorf("decoding the annotation %s of App %s: %w", corev1.LastAppliedConfigAnnotation, obj.GetName(), err)
	}
	spec, _, err := unstructured.NestedMap(applied, "spec")
	if err != nil {
		return fmt.Errorf("decoding the annotation %s of App %s: %w", corev1.LastAppliedConfigAnnotation, obj.GetName(), err)
	}
	applied["spec"] = app.RollBack(spec, previous)
	text, err := json.Marshal(applied)
	annotations[corev1.LastAppliedConfigAnnotation] = string(text) + "\n"
	obj.SetAnnotations(annotations)
	return err
}

// replicaSetsOf returns the ReplicaSets of the Deployment of an App.
func (i inspector) replicaSetsOf(ctx context.Context, of *v1alpha1.App) (owned []appsv1.ReplicaSet, err error) {
	client, err := i.client()
	if err != nil {
		return nil, err
	}
	d, err := client.AppsV1().Deployments(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the Deployment of App %s: %w", of.Name, err)
	}
	if !metav1.IsControlledBy(d, of) {
		return nil, fmt.Errorf("rolling back App %s: the App does not own Deployment %s", of.Name, d.Name)
	}
	found, err := client.AppsV1().ReplicaSets(of.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector),
	})
	if err != nil {
		return nil, fmt.Errorf("listing the ReplicaSets of Deployment %s: %w", d.Name, err)
	}
	return slices.DeleteFunc(found.Items, func(set appsv1.ReplicaSet) bool { return !metav1.IsControlledBy(&set, d) }), nil
}

// revision is a revision of the Deployment of an App.
type revision struct {
	number int64
	// digest identifies the Pod template.
	digest string
	// previous is the spec in app.SpecAnnotation of the ReplicaSet, as decoded JSON, or nil. fields and spec are the spec
	// of the App after a rollback to previous, as decoded JSON and as a struct.
	previous, fields map[string]any
	spec             v1alpha1.AppSpec
}

// String describes a revision for a list.
func (r revision) String() string {
	if r.previous == nil {
		return fmt.Sprintf("%d (spec not stored)", r.number)
	}
	return fmt.Sprintf("%d (image %s)", r.number, r.spec.Image)
}

// revisionAnnotation on a ReplicaSet has the revision of its Deployment.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// revisionsIn returns a revision for each ReplicaSet, the newest first. spec is the current spec of the App.
func revisionsIn(sets []appsv1.ReplicaSet, spec map[string]any) (all []revision) {
	for n := range sets {
		set := &sets[n]
		digest := cmp.Or(set.Spec.Template.Annotations[app.TemplateDigestAnnotation], set.Annotations[app.AdoptedAnnotation])
		r := revision{digest: digest}
		r.number, _ = strconv.ParseInt(set.Annotations[revisionAnnotation], 10, 64)
		if json.Unmarshal([]byte(set.Annotations[app.SpecAnnotation]), &r.previous) == nil && r.previous != nil {
			r.fields = app.RollBack(spec, r.previous)
			if runtime.DefaultUnstructuredConverter.FromUnstructured(r.fields, &r.spec) != nil {
				r.previous = nil
			}
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b revision) int { return cmp.Compare(b.number, a.number) })
	return all
}

// chooseRevision returns the revision to which an App returns. to is the number of the revision that the user names, or
// 0. revisions begin with the newest.
func chooseRevision(current *v1alpha1.App, revisions []revision, to int64) (target revision, err error) {
	isCurrent := func(r revision) bool {
		if r.previous == nil {
			return r.digest == current.Status.TemplateDigest
		}
		return isSameSpec(r.spec, current.Spec)
	}
	isLast := func(r revision) bool {
		return current.Status.LastAvailable != nil && r.digest == current.Status.LastAvailable.TemplateDigest
	}
	last, known := find(revisions, isLast)
	found := false
	switch {
	case to != 0:
		target, found = find(revisions, func(r revision) bool { return r.number == to })
	case known && !isCurrent(last):
		target, found = last, true
	default:
		newest, applied := find(revisions, isCurrent)
		target, found = find(revisions, func(r revision) bool {
			return !isCurrent(r) && (!applied || r.number < newest.number)
		})
	}
	switch {
	case !found && to != 0:
		return target, fmt.Errorf("revision %d of App %s was not found: %s", to, current.Name, list(revisions))
	case !found:
		return target, fmt.Errorf("no previous revision of App %s was found: %s", current.Name, list(revisions))
	case target.previous == nil:
		return target, fmt.Errorf("revision %d of App %s cannot be restored, because its ReplicaSet lacks the annotation "+
			"%s, for example for a spec of more than 16 KiB: apply the previous manifest of the App instead",
			target.number, current.Name, app.SpecAnnotation)
	case isCurrent(target):
		return target, fmt.Errorf("the App %s already has the spec of revision %s", current.Name, target)
	}
	return target, nil
}

// isSameSpec reports whether two specs have the same JSON. An empty list of ports differs from no list.
func isSameSpec(a, b v1alpha1.AppSpec) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func find(revisions []revision, is func(revision) bool) (revision, bool) {
	n := slices.IndexFunc(revisions, is)
	if n < 0 {
		return revision{}, false
	}
	return revisions[n], true
}

// list lists revisions for an error.
func list(revisions []revision) string {
	if len(revisions) == 0 {
		return "its Deployment has no ReplicaSet"
	}
	texts := make([]string, len(revisions))
	for n, r := range revisions {
		texts[n] = r.String()
	}
	return "its Deployment has the revisions " + strings.Join(texts, ", ")
}
