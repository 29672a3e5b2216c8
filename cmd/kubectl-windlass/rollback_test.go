package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// releases returns an App with an image and the digest of its last available template, and its Deployment. specs are
// the values of app.SpecAnnotation of the ReplicaSets web-1, web-2 and so on, whose templates have the digests d1, d2
// and so on.
func releases(image, lastAvailable string, specs ...string) []string {
	status := ""
	if lastAvailable != "" {
		status = "lastAvailable: {templateDigest: " + lastAvailable + ", image: a}"
	}
	objects := []string{
		"{apiVersion: windlass.dev/v1alpha1, kind: App, metadata: {namespace: shop, name: web, uid: a, " +
			"resourceVersion: '7'}, spec: {image: '" + image + "', replicas: 3, ingress: {host: a.example.com}}, " +
			"status: {" + status + "}}",
		strings.Replace(deployment, "replicas: 2", "replicas: 2, selector: {matchLabels: {a: b}}", 1),
		"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {namespace: shop, name: other, " +
			"annotations: {windlass.dev/app-spec: '{\"image\":\"other\"}', deployment.kubernetes.io/revision: '1'}}}",
	}
	for n, spec := range specs {
		objects = append(objects, fmt.Sprintf("{apiVersion: apps/v1, kind: ReplicaSet, metadata: {namespace: shop, "+
			"name: web-%d, ownerReferences: [{kind: Deployment, name: web, uid: e, controller: true}], "+
			"annotations: {windlass.dev/app-spec: '%s', deployment.kubernetes.io/revision: '%d'}}, "+
			"spec: {template: {metadata: {annotations: {windlass.dev/template-digest: d%d}}}}}", n+1, spec, n+1, n+1))
	}
	return objects
}

// edited returns objects with a change of the first one, the App.
func edited(objects []string, before, after string) []string {
	objects[0] = strings.Replace(objects[0], before, after, 1)
	return objects
}

// TestRollbackChangesLastAppliedSpec rolls back an App that somebody applied with kubectl, without replicas.
func TestRollbackChangesLastAppliedSpec(t *testing.T) {
	objects := edited(releases("web:2", "d1", `{"image":"web:1","port":81}`, `{"image":"web:2"}`), "uid: a, ",
		`uid: a, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"kind":"App","spec":{"image":"web:2",`+
			`"ingress":{"host":"a.example.com"}}}'}, `)
	s := newServer(t, objects...)
	if got := s.windlass(t, "rollback", "app/web"); got.code != 0 || len(s.writes) != 1 {
		t.Fatalf("got %v and the writes %v", got, s.writes)
	}
	const want = `{\"kind\":\"App\",\"spec\":{\"image\":\"web:1\",\"ingress\":{\"host\":\"a.example.com\"},\"port\":81}}\n`
	if !strings.Contains(s.writes[0], want) {
		t.Errorf("the request lacks %s: %s", want, s.writes[0])
	}
}

// rollbackCase is a command, and what it changes and prints.
type rollbackCase struct {
	objects      []string
	args, denied string
	// spec has the fields of the new spec as JSON without braces, except for the fields that a rollback keeps. Empty means
	// that the command changes nothing.
	spec        string
	out, errors string
}

func (c rollbackCase) wantWrites(t *testing.T) []map[string]any {
	t.Helper()
	if c.spec == "" {
		return nil
	}
	return []map[string]any{decoded(t, `{`+c.spec+`,"replicas":3,"ingress":{"host":"a.example.com"}}`)}
}

// changedSpecs returns the specs in requests that replace the App of releases.
func changedSpecs(t *testing.T, writes []string) (specs []map[string]any) {
	t.Helper()
	for _, write := range writes {
		body, replaces := strings.CutPrefix(write, "PUT /apis/windlass.dev/v1alpha1/namespaces/shop/apps/web ")
		app := decoded(t, body)
		if metadata, _ := app["metadata"].(map[string]any); !replaces || metadata["resourceVersion"] != "7" {
			t.Errorf("got the request %s", write)
		}
		spec, _ := app["spec"].(map[string]any)
		specs = append(specs, spec)
	}
	return specs
}

func decoded(t *testing.T, text string) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return fields
}

func TestRollback(t *testing.T) {
	const (
		one, two, three = `{"image":"web:1","port":81}`, `{"image":"web:2","ports":[]}`, `{"image":"web:3"}`
		listed          = "its Deployment has the revisions 3 (image web:3), 2 (image web:2), 1 (image web:1)\n"
	)
	for name, c := range map[string]rollbackCase{
		"an App whose newest release is not available returns to its last available one": {
			objects: releases("web:3", "d1", one, two, three), args: "app/web", spec: `"image":"web:1","port":81`,
			out: "app.windlass.dev/web rolled back to revision 1 with image web:1\n",
		},
		"an App whose newest spec was not rolled out returns to its last available one": {
			objects: releases("web:4", "d3", one, two, three), args: "app/web", spec: `"image":"web:3"`,
			out: "app.windlass.dev/web rolled back to revision 3 with image web:3\n",
		},
		"an App whose newest release is available returns to the previous one": {
			objects: releases("web:3", "d3", one, two, three), args: "app/web", spec: `"image":"web:2","ports":[]`,
			out: "app.windlass.dev/web rolled back to revision 2 with image web:2\n",
		},
		"a revision with the current spec, for example after a change of a Secret, is not a previous release": {
			objects: releases("web:3", "d4", one, two, three, three), args: "app/web", spec: `"image":"web:2","ports":[]`,
			out: "app.windlass.dev/web rolled back to revision 2 with image web:2\n",
		},
		"an App that was never available returns to the previous release": {
			objects: releases("web:3", "", one, two, three), args: "app/web", spec: `"image":"web:2","ports":[]`,
			out: "app.windlass.dev/web rolled back to revision 2 with image web:2\n",
		},
		"--to names a revision": {
			objects: releases("web:3", "d3", one, two, three), args: "app/web --to 1", spec: `"image":"web:1","port":81`,
			out: "app.windlass.dev/web rolled back to revision 1 with image web:1\n",
		},
		"--to names a revision that does not exist": {
			objects: releases("web:3", "d3", one, two, three), args: "app/web --to 7",
			errors: "error: revision 7 of App web was not found: " + listed,
		},
		"--to must not name the current spec": {
			objects: releases("web:3", "d3", one, two, three), args: "app/web --to 3",
			errors: "error: the App web already has the spec of revision 3 (image web:3)\n",
		},
		"an App with one release has no previous one": {
			objects: releases("web:1", "d1", `{"image":"web:1"}`), args: "app/web",
			errors: "error: no previous revision of App web was found: its Deployment has the revisions 1 (image web:1)\n",
		},
		"a revision without a spec": {
			objects: releases("web:3", "d3", one, "", three), args: "app/web",
			errors: "error: revision 2 of App web cannot be restored, because its ReplicaSet lacks the annotation " +
				"windlass.dev/app-spec, for example for a spec of more than 16 KiB: apply the previous manifest of the App " +
				"instead\n",
		},
		"a current spec that was not stored": {
			objects: edited(releases("web:4", "d4", one, two, three, ""), "status: {", "status: {templateDigest: d4, "),
			args:    "app/web", spec: `"image":"web:3"`,
			out: "app.windlass.dev/web rolled back to revision 3 with image web:3\n",
		},
		"an empty list of ports is not the default port": {
			objects: releases("web:1", "d2", `{"image":"web:1","ports":[]}`, `{"image":"web:1"}`), args: "app/web",
			spec: `"image":"web:1","ports":[]`, out: "app.windlass.dev/web rolled back to revision 1 with image web:1\n",
		},
		"a paused App": {
			objects: edited(releases("web:3", "d1", one, two, three), "uid: a, ", "uid: a, annotations: "+
				"{windlass.dev/paused: 'true'}, "), args: "app/web", spec: `"image":"web:1","port":81`,
			out: "app.windlass.dev/web rolled back to revision 1 with image web:1\n",
			errors: "App web is paused, so that the operator does not change its Pods. Run `kubectl windlass resume app/web " +
				"-n shop`.\n",
		},
		"a component of a Platform": {
			objects: []string{strings.Replace(ready, "uid: a", "uid: a, ownerReferences: [{kind: Platform, name: all, uid: d, "+
				"controller: true}]", 1)}, args: "app/web",
			errors: "error: Platform all owns App web, and would revert the rollback: change the spec of Platform all " +
				"instead\n",
		},
		"an App without a Deployment": {
			objects: []string{ready}, args: "app/web",
			errors: "error: reading the Deployment of App web: deployments.apps \"web\" not found\n",
		},
		"a Deployment of somebody else": {
			objects: []string{ready, strings.Replace(deployment, "uid: a", "uid: x", 1)}, args: "app/web",
			errors: "error: rolling back App web: the App does not own Deployment web\n",
		},
		"a user who may not list ReplicaSets": {
			objects: releases("web:3", "d3", one, two, three), args: "app/web", denied: "replicasets",
			errors: "error: listing the ReplicaSets of Deployment web: replicasets.apps is forbidden: <nil>\n",
		},
		"a kind without a name": {
			objects: []string{ready}, args: "app", errors: "error: resource(s) were provided, but no name was specified\n",
		},
		"a Database cannot be rolled back": {
			objects: []string{failed}, args: "database/db", errors: "error: only an App can be rolled back: name one App\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, c.objects...)
			s.denied = c.denied
			got := s.windlass(t, append([]string{"rollback"}, strings.Fields(c.args)...)...)
			if got.out != c.out || got.errors != c.errors {
				t.Errorf("got %q and errors %q, want %q and errors %q", got.out, got.errors, c.out, c.errors)
			}
			if diff := cmp.Diff(c.wantWrites(t), changedSpecs(t, s.writes)); diff != "" {
				t.Errorf("the writes differ (-want +got):\n%s", diff)
			}
		})
	}
}
