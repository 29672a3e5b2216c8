package app

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// TestImageThatPolicyChangesIsWrittenOnce has a policy that replaces the repository web of each image by mir.
func TestImageThatPolicyChangesIsWrittenOnce(t *testing.T) {
	f := newFixture(t, example())
	f.Kube.PrependReactor("create", "deployments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		c := &action.(clienttesting.CreateAction).GetObject().(*appsv1.Deployment).Spec.Template.Spec.Containers[0]
		c.Image = strings.Replace(c.Image, "web:", "mir:", 1)
		return false, nil, nil
	})
	f.Kube.PrependReactor("patch", "deployments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction).GetPatch()
		// not in the record, whose quotes are escaped
		copy(patch, bytes.ReplaceAll(patch, []byte(`"image":"web:`), []byte(`"image":"mir:`)))
		return false, nil, nil
	})
	settle := func() (writes, events []string) {
		for range 4 {
			r := f.Reconcile()
			controllertest.ErrorContains(t, "", r.Err)
			writes, events = append(writes, r.Writes...), append(events, r.Events...)
			f.rollOut()
		}
		isStatus := func(line string) bool { return strings.Contains(line, "/status") }
		isNormal := func(line string) bool { return strings.HasPrefix(line, "Normal") }
		return slices.DeleteFunc(writes, isStatus), slices.DeleteFunc(events, isNormal)
	}
	writes, events := settle()
	controllertest.Equal(t, "writes for the creation", []string{createDeployment, createService}, writes)
	controllertest.Equal(t, "warnings", []string{"Warning ChangedByAdmission default/web: The API server stores other " +
		"values in Deployment default/web than the operator writes: spec.template.spec.containers[0].image. Most likely, a " +
		"mutating admission policy or webhook changes these values. The operator writes the values again only after a " +
		"change of the desired or the observed values, or after a restart of the operator."}, events)
	f.Change(func(app *v1alpha1.App) { app.Spec.Image = "web:2" })
	writes, events = settle()
	controllertest.Equal(t, "writes for another image", []string{"patch deployments default/web"}, writes)
	controllertest.Equal(t, "warnings about another image", nil, events)
	controllertest.Equal(t, "image", "mir:2", f.imageOf())
}

// TestTemplateThatPolicyKeepsIsNotReportedAsReverted has a policy that keeps the template of `kubectl rollout undo`,
// with the annotation of this template.
func TestTemplateThatPolicyKeepsIsNotReportedAsReverted(t *testing.T) {
	f := readyFixture(t)
	previous := recorded(t, deploymentWith(example(image("web:0")), nil))
	restore := strings.NewReplacer(`"web:1"`, `"web:0"`, // not in the record, whose quotes are escaped
		`"`+f.Object().Status.TemplateDigest+`"`, `"`+previous.Spec.Template.Annotations[TemplateDigestAnnotation]+`"`)
	f.Kube.PrependReactor("patch", "deployments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction).GetPatch()
		copy(patch, restore.Replace(string(patch)))
		return false, nil, nil
	})
	f.changeDeployment(func(d *appsv1.Deployment) {
		d.Spec.Template, d.Annotations = previous.Spec.Template, previous.Annotations
	})
	for range 3 {
		for _, event := range f.Reconcile().Events {
			if strings.HasPrefix(event, "Warning TemplateReverted") {
				t.Errorf("the event is %q", event)
			}
		}
		controllertest.Equal(t, "image", "web:0", f.imageOf())
		f.rollOut()
	}
}
