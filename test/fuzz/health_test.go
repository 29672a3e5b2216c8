//go:build integration

package fuzz

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/test/framework"
)

// reasonOf returns the reason for which the API server has rejected an object, without values of the object.
func reasonOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return cut(err.Error(), 160)
	}
	cause := status.Status().Details.Causes[0]
	return cause.Field + ": " + cut(variable.ReplaceAllString(cause.Message, "…"), 200)
}

// variable matches the parts of a message that differ between rejections with the same reason.
var variable = regexp.MustCompile(`"(\\.|[^"\\])*"|\d+`)

// waitForConditions waits until every object of the batch has conditions for its newest generation. It skips deleted
// objects, and paused objects, whose status the operator does not write.
func (c *campaign) waitForConditions(t *testing.T, kind Kind) {
	t.Helper()
	waiting := slices.Clone(c.alive[kind.Name])
	defer func() {
		for _, object := range waiting {
			now, err := c.client(kind, object).Get(context.WithoutCancel(t.Context()), object.GetName(), metav1.GetOptions{})
			t.Errorf("%s %s/%s has no conditions for its newest generation (%v):\n%s", kind.Name, object.GetNamespace(),
				object.GetName(), err, manifest(now))
		}
	}()
	framework.Eventually(t, "the odd objects to have conditions", func(ctx context.Context) (bool, error) {
		list, err := c.admin.Resource(kind.Resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		live := map[string]*unstructured.Unstructured{}
		for _, object := range list.Items {
			live[object.GetNamespace()+"/"+object.GetName()] = &object
		}
		waiting = slices.DeleteFunc(waiting, func(object *unstructured.Unstructured) bool {
			now := live[object.GetNamespace()+"/"+object.GetName()]
			return now == nil || now.GetDeletionTimestamp() != nil ||
				now.GetAnnotations()[controller.PausedAnnotation] == "true" || hasConditions(now)
		})
		return len(waiting) == 0, nil
	})
}

// hasConditions reports whether an object has conditions, and a status for its newest generation.
func hasConditions(object *unstructured.Unstructured) bool {
	conditions, _, err1 := unstructured.NestedSlice(object.Object, "status", "conditions")
	generation, _, err2 := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	return err1 == nil && err2 == nil && len(conditions) > 0 && generation == object.GetGeneration()
}

// remove deletes the batch of a kind, and waits until the API server has removed it. It also deletes the remaining
// claims and databases of the batch.
func (c *campaign) remove(t *testing.T, kind Kind) {
	t.Helper()
	for _, object := range c.alive[kind.Name] {
		err := c.client(kind, object).Delete(t.Context(), object.GetName(), metav1.DeleteOptions{})
		if framework.IgnoreNotFound(err) != nil {
			t.Errorf("deleting %s %s: %v\n%s", kind.Name, object.GetName(), err, manifest(object))
		}
	}
	mine := map[string]bool{}
	for _, object := range c.alive[kind.Name] {
		mine[object.GetNamespace()+"/"+object.GetName()] = true
	}
	var left []string
	err := framework.Await(t.Context(), func(ctx context.Context) (_ bool, err error) {
		left, err = c.remaining(ctx, kind, mine)
		return len(left) == 0, err
	})
	if err != nil {
		t.Errorf("deleting objects of kind %s: %v; these remain:\n%s", kind.Name, err, strings.Join(left, "\n"))
	}
	c.alive[kind.Name] = nil
	switch kind.Name {
	case "Database":
		c.tidyClaims(t)
	case "ExternalDatabase":
		c.tidyServer(t)
	}
}

// remaining returns the manifests of the objects in mine that still exist. It also unblocks the deletion of all objects
// of all kinds that are being deleted.
func (c *campaign) remaining(ctx context.Context, kind Kind, mine map[string]bool) (left []string, err error) {
	for _, other := range c.kinds {
		list, err := c.admin.Resource(other.Resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return left, err
		}
		for _, object := range list.Items {
			if other.Name == kind.Name && mine[object.GetNamespace()+"/"+object.GetName()] {
				left = append(left, manifest(&object))
			}
			if object.GetDeletionTimestamp() == nil {
				continue
			}
			if err := c.unblockDeletion(ctx, other, &object); err != nil {
				return left, err
			}
		}
	}
	return left, nil
}

// ownFinalizers maps a kind to the finalizer that the operator removes from objects of the kind.
var ownFinalizers = map[string]string{
	"Database": "windlass.dev/database", "ExternalDatabase": "windlass.dev/externaldatabase",
	"Platform": "windlass.dev/platform",
}

// unblockDeletion removes everything that deliberately blocks the deletion of an object: foreign finalizers, the paused
// annotation, and the deletionPolicy Delete of an ExternalDatabase whose server cannot be reached.
func (c *campaign) unblockDeletion(ctx context.Context, kind Kind, object *unstructured.Unstructured) error {
	patch := map[string]any{}
	finalizers := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(name string) bool {
		return name == Finalizer || strings.HasPrefix(name, "windlass.dev/") && name != ownFinalizers[kind.Name]
	})
	if len(finalizers) != len(object.GetFinalizers()) || object.GetAnnotations()[controller.PausedAnnotation] == "true" {
		patch["metadata"] = map[string]any{
			"finalizers": finalizers, "resourceVersion": object.GetResourceVersion(), "annotations": map[string]any{
				controller.PausedAnnotation: nil,
			},
		}
	}
	policy, _, _ := unstructured.NestedString(object.Object, "spec", "deletionPolicy")
	if kind.Name == "ExternalDatabase" && policy == "Delete" && !c.reaches(object) {
		patch["spec"] = map[string]any{"deletionPolicy": "Retain"}
	}
	if len(patch) == 0 {
		return nil
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.admin.Resource(kind.Resource).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(),
		types.MergePatchType, text, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// reaches reports whether the operator can log in to the server of an ExternalDatabase: only the Secret "server" has
// valid credentials.
func (c *campaign) reaches(object *unstructured.Unstructured) bool {
	name, _, _ := unstructured.NestedString(object.Object, "spec", "connectionSecretRef", "name")
	return name == "server"
}

// checkProcess checks that the controller responds and has not panicked, and checks its log.
func (c *campaign) checkProcess(t *testing.T) {
	t.Helper()
	for _, line := range strings.Split(c.controller.Get(t, "/metrics"), "\n") {
		if strings.HasPrefix(line, "controller_runtime_reconcile_panics_total") && !strings.HasSuffix(line, " 0") {
			t.Errorf("a reconcile panicked: %s", line)
		}
	}
	text := c.controller.Log.Take()
	if _, err := c.log.Write(text); err != nil {
		t.Fatalf("writing the controller's log: %v", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if problem := c.problemOf(lines.Bytes()); problem != "" {
			t.Errorf("the controller's log has %s: %s", problem, lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		t.Errorf("reading the controller's log: %v", err)
	}
}

// mostReconciles limits the reconciles of one object while its batch exists. An object that
// waits for a missing dependency is reconciled every five seconds.
const mostReconciles = 200

// problemOf returns the problem that a line of the controller's log shows, or "".
func (c *campaign) problemOf(text []byte) string {
	line := map[string]any{}
	if json.Unmarshal(text, &line) != nil {
		return "a line that is not JSON"
	}
	if line["stack"] != nil || strings.Contains(fmt.Sprint(line["err"]), "panic") {
		return "a panic"
	}
	_, isInfo := line["v"]
	object, _ := line["object"].(string)
	if !isInfo && object == "" {
		return "an error that names no object"
	}
	if isInfo && line["result"] != nil {
		object = fmt.Sprint(line["controller"], " ", object)
		if c.reconciles[object]++; c.reconciles[object] == mostReconciles {
			return fmt.Sprintf("reconcile number %d of one object", mostReconciles)
		}
	}
	return ""
}

// measure records the size of the operator's heap after the first canaries.
func (c *campaign) measure(t *testing.T) {
	t.Helper()
	c.heap = c.controller.Heap(t)
}

// mostHeap is the largest allowed growth of the heap between measure and the end of the test, in bytes.
const mostHeap = 32 << 20

// finish deletes all remaining objects, checks the heap of the operator, prints the totals, and ends the
// controller.
func (c *campaign) finish(t *testing.T) {
	t.Helper()
	for _, kind := range slices.Backward(c.kinds) { // Platforms first: they create deleted components again
		c.remove(t, kind)
	}
	c.checkProcess(t)
	if heap := c.controller.Heap(t); c.heap > 0 && heap > c.heap+mostHeap {
		t.Errorf("the heap has grown from %d to %d MiB, although all odd objects are deleted", c.heap>>20, heap>>20)
	} else {
		fmt.Printf("seed %d: heap %d MiB before, %d MiB after, %d MiB resident at most\n", *seed, c.heap>>20, heap>>20,
			c.controller.PeakRSS(t)>>20)
	}
	for _, kind := range slices.Sorted(maps.Keys(c.accepted)) {
		fmt.Printf("%s: %d accepted, %d rejected\n", kind, c.accepted[kind], c.rejected[kind])
	}
	if testing.Verbose() {
		reasons := slices.SortedFunc(maps.Keys(c.reasons), func(a, b string) int { return c.reasons[b] - c.reasons[a] })
		for _, reason := range reasons[:min(len(reasons), 60)] {
			fmt.Printf("%6d %s\n", c.reasons[reason], reason)
		}
	}
	if ended := c.controller.Terminate(); ended != 0 {
		t.Errorf("the controller ended with exit code %d after SIGTERM", ended)
	}
}
