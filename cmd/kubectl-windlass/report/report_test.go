package report

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"windlass.dev/windlass/pkg/plan"
)

// object returns the object of a manifest, or nil for "".
func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	if manifest == "" {
		return nil
	}
	obj := &unstructured.Unstructured{}
	text, err := yaml.YAMLToJSON([]byte(manifest))
	if err == nil {
		err = json.Unmarshal(text, &obj.Object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func deployment(spec string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: shop, name: web}\nspec: " + spec + "\n"
}

func TestConsequenceSaysWhatFollows(t *testing.T) {
	const (
		set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {namespace: shop, name: db}\nspec: {replicas: " +
			"1, template: {metadata: {labels: {app.kubernetes.io/name: database}}, image: a}}\n"
		ingress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {namespace: shop, name: web}\n"
		held    = "apiVersion: windlass.dev/v1alpha1\nkind: Database\nmetadata: {namespace: shop, name: db, " +
			"finalizers: [a/b]}\n"
		outside = "apiVersion: windlass.dev/v1alpha1\nkind: ExternalDatabase\nmetadata: {}\nspec: {deletionPolicy: Delete}\n"
	)
	for name, c := range map[string]struct{ before, after, want string }{
		"a new Deployment": {"", deployment("{replicas: 2}"), "is created and starts 2 Pods"},
		"a Deployment with a new image": {
			deployment("{replicas: 2, template: {image: a}}"), deployment("{replicas: 2, template: {image: b}}"),
			"replaces its Pods in a rolling update",
		},
		"a Deployment without overlap": {
			deployment("{replicas: 2, strategy: {type: Recreate}, template: {image: a}}"),
			deployment("{replicas: 2, strategy: {type: Recreate}, template: {image: b}}"),
			"stops all Pods, and then starts new Pods",
		},
		"a Deployment that scales": {deployment("{replicas: 2}"), deployment("{replicas: 5}"), "scales from 2 to 5 Pods"},
		"a Deployment without Pods": {
			deployment("{replicas: 0, template: {image: a}}"), deployment("{replicas: 0, template: {image: b}}"),
			"is changed, and its Pods keep running",
		},
		"a StatefulSet": {
			set, strings.Replace(set, "image: a", "image: b", 1), "restarts its Pod, which runs database",
		},
		"a deleted Ingress":    {ingress, "", "is deleted"},
		"a deleted Deployment": {deployment("{}"), "", "is deleted, with its Pods"},
		"a deleted claim": {
			"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: db}\n", "",
			"is deleted, with the volume and its data unless the reclaim policy of the volume is Retain",
		},
		"a deleted ExternalDatabase": {
			outside, "", "is deleted, with its roles and its database on the PostgreSQL server",
		},
		"an ExternalDatabase to retain": {strings.Replace(outside, "Delete", "Retain", 1), "", "is deleted"},
		"an object with finalizers": {
			held, strings.Replace(held, "name: db", "name: db, deletionTimestamp: '2026-01-01T00:00:00Z'", 1),
			"is deleted once its finalizers are removed: a/b",
		},
		"a new finalizer": {
			strings.Replace(held, ", finalizers: [a/b]", "", 1), held, "gets the finalizer a/b, so that it is not " +
				"deleted before the operator has cleaned up",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &plan.Write{Before: object(t, c.before), After: object(t, c.after)}
			for _, obj := range []*unstructured.Unstructured{w.Before, w.After} {
				if obj != nil {
					w.Kind = obj.GetKind()
				}
			}
			if got := consequence(w); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDiffHidesSecretsAndDigests(t *testing.T) {
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a, annotations: " +
		"{kubectl.kubernetes.io/last-applied-configuration: canary}}\nstringData: {gone: canary, same: canary, other: %}\n"
	text, err := diff(object(t, strings.Replace(secret, "%", "canary1", 1)),
		object(t, strings.NewReplacer("%", "canary2", "gone: canary, ", "new: canary, ").Replace(secret)))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"-  gone: (set)", "+  new: (set)", "+  other: (changed)", "   same: (unchanged)"} {
		if !strings.Contains(text, want) {
			t.Errorf("the diff has no line %q:\n%s", want, text)
		}
	}
	with := func(digest string) *unstructured.Unstructured {
		return object(t, deployment("{template: {metadata: {annotations: {windlass.dev/inputs-digest: "+digest+"}}}}"))
	}
	digests, err := diff(with("canary1"), with("canary2"))
	if err != nil || !strings.Contains(digests, "windlass.dev/inputs-digest: (changed)") {
		t.Errorf("the diff of a digest (%v):\n%s", err, digests)
	}
	if strings.Contains(text+digests, "canary") {
		t.Errorf("the diffs show data:\n%s%s", text, digests)
	}
}

func TestReportHasNoMessageAboutASecret(t *testing.T) {
	rejected := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "a", nil)
	rejected.ErrStatus.Message = "canary"
	p, err := New([]plan.Write{
		{
			Verb: "create", Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: "Secret",
			Name: "a", Err: rejected,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	text := p.Text(false)
	if strings.Contains(text, "canary") || !strings.Contains(text, "Secret a is rejected by the API server: Invalid") ||
		p.Summary.Rejected != 1 {
		t.Errorf("the report is\n%s", text)
	}
}

func TestRejectedWriteIsReportedOnce(t *testing.T) {
	service := schema.GroupVersionResource{Version: "v1", Resource: "services"}
	rejected := plan.Write{
		Writer: "App shop/web", Verb: "patch", Resource: service, Kind: "Service", Name: "web",
		Err: apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", nil),
	}
	created, other := rejected, rejected
	created.Verb = "create"
	other.Verb, other.Name = "create", "b"
	accepted := rejected
	accepted.Err = nil
	accepted.Before = object(t, "kind: Service\nspec: {a: b}\n")
	accepted.After = object(t, "kind: Service\nspec: {a: c}\n")
	for name, c := range map[string]struct {
		writes []plan.Write
		errors []string // of the steps
	}{
		"an accepted merge": {[]plan.Write{rejected, rejected, accepted}, []string{""}},
		"no accepted merge": {[]plan.Write{rejected, rejected, rejected}, []string{rejected.Err.Error()}},
		"the same write again": {
			[]plan.Write{created, other, created}, []string{created.Err.Error(), other.Err.Error()},
		},
		"another child next": {
			[]plan.Write{
				rejected, {Writer: "App shop/web", Verb: "patch", Resource: service, Name: "b"},
			}, []string{rejected.Err.Error(), ""},
		},
	} {
		p, err := New(c.writes)
		var errs []string
		for _, step := range p.Steps {
			errs = append(errs, step.Error)
		}
		if err != nil || !slices.Equal(errs, c.errors) {
			t.Errorf("%s: the report has the steps %+v (%v)", name, p.Steps, err)
		}
	}
}

func TestReportShowsStatementsAmongTheWrites(t *testing.T) {
	const by = "ExternalDatabase a/b"
	secret := func(name string) plan.Write {
		return plan.Write{
			Writer: by, Verb: "create", Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Name: name,
			After: object(t, "kind: Secret\nmetadata: {name: "+name+"}\n"),
		}
	}
	sql := plan.Write{Writer: by, Verb: plan.Execute, Body: []byte("SELECT 1")}
	p, err := New([]plan.Write{secret("first"), sql, secret("last")})
	if err != nil {
		t.Fatal(err)
	}
	want := Step{
		By: by, Verb: plan.Execute, Consequence: "executes SQL on its PostgreSQL server", Diff: "SELECT 1;\n",
	}
	if len(p.Steps) != 3 || p.Steps[1] != want || (p.Summary != Summary{Create: 2, Statements: 1}) {
		t.Errorf("the report is %+v", p)
	}
}

func TestTextHasNoControlCharacters(t *testing.T) {
	p := Plan{
		Steps: []Step{
			{By: you, Kind: "App", Name: "a", Consequence: "is changed", Diff: "+\x1b[31m\u009b31m\u202e\n", Error: "\x07"},
		},
		Waiting: []Problem{{Object: "App a", Message: "\x1b]52;c;\x07"}}, Notes: []string{"\r"},
	}
	p.Fail("App", "", "b", errors.New("\x1b"))
	if text := p.Text(false); strings.ContainsAny(text, "\x1b\x07\r\u009b\u202e") {
		t.Errorf("the text is %q", text)
	}
}
