package inspect

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func objects(t *testing.T, manifests ...string) *Objects {
	t.Helper()
	all := &Objects{}
	for _, manifest := range manifests {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &obj.Object); err != nil {
			t.Fatal(err)
		}
		all.all = append(all.all, obj)
	}
	return all
}

// TestCycleOfOwnersEnds uses an App that its own Deployment owns, because users can write any owner reference.
func TestCycleOfOwnersEnds(t *testing.T) {
	all := objects(t,
		"{apiVersion: windlass.dev/v1alpha1, kind: App, metadata: {name: web, uid: a, ownerReferences: [{kind: "+
			"Deployment, name: web, uid: d, controller: true}]}, status: {conditions: [{type: Ready, status: "+
			"'False', message: waits}]}}",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, uid: d, ownerReferences: [{kind: App, name: "+
			"web, uid: a, controller: true}]}}",
	)
	if rows := Tree(all.all[0], all, time.Now()); len(rows) != 3 {
		t.Errorf("the tree has %d rows, want 3: %v", len(rows), rows)
	}
	if e := Why(all.all[0], all); len(e.Causes) != 1 {
		t.Errorf("the causes are %v", e.Causes)
	}
}

func TestWhySaysThatOperatorMayNotRun(t *testing.T) {
	all := objects(t, "{apiVersion: windlass.dev/v1alpha1, kind: App, metadata: {namespace: shop, name: web, uid: a}}")
	e := Why(all.all[0], all)
	if len(e.Causes) != 1 || e.Causes[0] != (Cause{"App shop/web", "has no status yet"}) || e.Advice == "" {
		t.Errorf("the explanation is %+v", e)
	}
}

func TestWhySaysThatDeletionFails(t *testing.T) {
	const message = "deleting PersistentVolumeClaim shop/shop: forbidden"
	all := objects(t, "{apiVersion: windlass.dev/v1alpha1, kind: Database, "+
		"metadata: {namespace: shop, name: shop, uid: a, deletionTimestamp: '2026-01-01T10:00:00Z'}, "+
		"status: {phase: Failed, conditions: [{type: Ready, status: 'False', reason: Forbidden, message: '"+message+"'}]}}")
	e := Why(all.all[0], all)
	if len(e.Causes) != 1 || e.Causes[0] != (Cause{"Database shop/shop", "is being deleted: " + message}) {
		t.Errorf("the explanation is %+v", e)
	}
}

// TestWhyIgnoresWarningsOfThePast uses a Pod that was scheduled late and is not ready yet, and a Pod that is being
// deleted.
func TestWhyIgnoresWarningsOfThePast(t *testing.T) {
	const (
		app = "{apiVersion: windlass.dev/v1alpha1, kind: App, metadata: {name: web, uid: a}, status: {phase: " +
			"Deploying, conditions: [{type: Ready, status: 'False', message: waits}]}}"
		pod = "{apiVersion: v1, kind: Pod, metadata: {name: web-1, uid: p, %s ownerReferences: [{kind: App, name: " +
			"web, uid: a, controller: true}]}, status: {phase: Running, conditions: [{type: Ready, status: 'False', " +
			"lastTransitionTime: '2026-01-01T10:00:00Z'}]}}"
		warn = "{apiVersion: v1, kind: Event, metadata: {name: e}, type: Warning, involvedObject: {uid: p}, message: " +
			"%s, lastTimestamp: '%s'}"
	)
	for name, c := range map[string]struct{ pod, message, at, want string }{
		"a probe that fails now": {
			fmt.Sprintf(pod, ""), "probe failed", "2026-01-01T10:00:05Z", "is not ready: probe failed",
		},
		"a problem that was resolved": {fmt.Sprintf(pod, ""), "no nodes", "2026-01-01T09:59:59Z", ""},
		"a Pod that is being deleted": {
			fmt.Sprintf(pod, "deletionTimestamp: '2026-01-01T10:00:00Z',"), "probe failed", "2026-01-01T10:00:05Z", "",
		},
		"a problem at the same instant": {
			fmt.Sprintf(pod, ""), "probe failed", "2026-01-01T10:00:00Z", "is not ready: probe failed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := objects(t, app, c.pod, fmt.Sprintf(warn, c.message, c.at))
			got := ""
			if causes := Why(all.all[0], all).Causes; len(causes) > 1 {
				got = causes[1].Text
			}
			if got != c.want {
				t.Errorf("the cause below the App is %q, want %q", got, c.want)
			}
		})
	}
}

func TestAdviceIsAboutTheProblemInTheMessage(t *testing.T) {
	const created = "Pod web-1, created at 2026-01-01T00:00:00Z: %s. 1 of 1 new Pods have a problem; 0 Pods are " +
		"ready. See `kubectl logs`."
	for _, c := range []struct{ reason, problem, want string }{
		{
			"ImagePullBackOff", "the node cannot reach the registry of the image a:1",
			"Check the network and the configuration of the node.",
		},
		{
			"CrashLoopBackOff", "the container ended with exit code 3", "Read the log of the container. Correct the " +
				"image, the command, the environment or the limits.",
		},
		{"NewReason", "a problem of a later version", "Correct the cause, which the table Pods in docs/messages.md lists."},
	} {
		if got := Advice(c.reason, fmt.Sprintf(created, c.problem)); got != c.want {
			t.Errorf("the advice about %q is %q, want %q", c.problem, got, c.want)
		}
	}
}
