package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	ready = "{apiVersion: windlass.dev/v1alpha1, kind: App, metadata: {namespace: shop, name: web, uid: a, " +
		"creationTimestamp: '2020-01-01T00:00:00Z'}, " +
		"status: {phase: Ready, conditions: [{type: Ready, status: 'True', reason: Ready}]}}"
	failed = "{apiVersion: windlass.dev/v1alpha1, kind: Database, metadata: {namespace: shop, name: db, uid: b}, " +
		"status: {phase: Failed, conditions: [{type: Ready, status: 'False', reason: Broken, message: it is broken}, " +
		"{type: Degraded, status: 'True'}]}}"
	elsewhere = "{apiVersion: windlass.dev/v1alpha1, kind: App, metadata: {namespace: other, name: far, uid: c}}"
	platform  = "{apiVersion: windlass.dev/v1alpha1, kind: Platform, metadata: {name: all, uid: d}, " +
		"spec: {namespace: shop}}"
	deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: web, uid: e, " +
		"ownerReferences: [{kind: App, name: web, uid: a, controller: true}]}, " +
		"spec: {replicas: 2}, status: {readyReplicas: 1}}"
	configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: web, uid: f, " +
		"ownerReferences: [{kind: App, name: web, uid: a, controller: true}]}, data: {key: canary}}"
)

// Errors of several commands.
const (
	notOwn = "error: ConfigMap web is not an object of Windlass: " +
		"name an App, At, Database, ExternalDatabase or Platform\n"
	noFiles = "Completion ended with directive: ShellCompDirectiveNoFileComp\n"
	nothing = "error: specify the objects to plan: -f FILE, KIND/NAME, or --all\n"
)

// age matches the age of an object that was created in 2020.
var age = regexp.MustCompile(`\d+y(\d+d)?$`)

// words returns the lines of a text without repeated spaces and without ages.
func words(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, age.ReplaceAllString(strings.Join(strings.Fields(line), " "), "AGE"))
	}
	return lines
}

func TestCommands(t *testing.T) {
	everything := []string{ready, failed, elsewhere, platform, deployment, configMap}
	for name, c := range map[string]struct {
		objects         []string
		denied, missing string
		args            string
		out             []string
		errors          string
		code            int
		writes          []string
	}{
		"status lists failed objects first": {
			objects: everything, args: "status",
			out: []string{
				"NAMESPACE NAME READY PHASE REASON AGE", "shop database/db False Failed Broken AGE",
				"platform/all Unknown AGE", "shop app/web True Ready Ready AGE",
			},
		},
		"status -A lists all namespaces": {
			objects: []string{elsewhere}, args: "status -A",
			out: []string{"NAMESPACE NAME READY PHASE REASON AGE", "other app/far Unknown AGE"},
		},
		"status without objects": {args: "status", errors: "No objects of Windlass were found.\n"},
		"status says what the user may not list": {
			objects: []string{ready}, denied: "databases", args: "status",
			out:    []string{"NAMESPACE NAME READY PHASE REASON AGE", "shop app/web True Ready Ready AGE"},
			errors: "You may not list databases.windlass.dev. The output lacks these objects.\n",
		},
		"status without the CustomResourceDefinitions": {
			missing: "platforms", args: "status", code: exitError,
			errors: "error: the CustomResourceDefinitions of Windlass are not installed in this cluster: " +
				"the API server does not know platforms.windlass.dev\n",
		},
		"status takes no arguments": {
			args:   "status app/web",
			code:   exitError,
			errors: "error: unknown command \"app/web\" for \"kubectl windlass status\"\n",
		},
		"tree shows what an App owns": {
			objects: everything, args: "tree app/web",
			out: []string{
				"NAME PHASE REASON AGE", "App/web Ready Ready AGE", "├── ConfigMap/web",
				"└── Deployment/web 1/2 ready",
			},
		},
		"tree says what the user may not list": {
			objects: everything, denied: "configmaps", args: "tree app/web",
			out:    []string{"NAME PHASE REASON AGE", "App/web Ready Ready AGE", "└── Deployment/web 1/2 ready"},
			errors: "You may not list configmaps. The output lacks these objects.\n",
		},
		"tree of another kind": {
			objects: everything, args: "tree configmap/web", code: exitError,
			errors: notOwn,
		},
		"tree of nothing": {
			args:   "tree",
			code:   exitError,
			errors: "error: requires at least 1 arg(s), only received 0\n",
		},
		"why of a Ready App": {objects: everything, args: "why app/web", out: []string{"App shop/web is Ready."}},
		"why of two objects": {
			objects: everything,
			args:    "why app/web database/db",
			out:     []string{"App shop/web is Ready.", "Database shop/db is Failed: it is broken"},
		},
		"why without Events": {
			objects: everything,
			denied:  "events",
			args:    "why app/web",
			out:     []string{"App shop/web is Ready."},
			errors:  "You may not list events. The output lacks these objects.\n",
		},
		"why of what is gone": {
			args:   "why app/gone",
			code:   exitError,
			errors: "error: apps.windlass.dev \"gone\" not found\n",
		},
		"pause annotates an App": {
			objects: everything, args: "pause app/web", out: []string{"app.windlass.dev/web paused"},
			writes: []string{"PATCH /apis/windlass.dev/v1alpha1/namespaces/shop/apps/web " +
				`{"metadata":{"annotations":{"windlass.dev/paused":"true"}}}`},
		},
		"resume removes the annotation of a Platform": {
			objects: everything, args: "resume platform/all", out: []string{"platform.windlass.dev/all resumed"},
			writes: []string{"PATCH /apis/windlass.dev/v1alpha1/platforms/all " +
				`{"metadata":{"annotations":{"windlass.dev/paused":null}}}`},
		},
		"pause of an object of another kind changes nothing": {
			objects: everything, args: "pause app/web configmap/web", code: exitError,
			errors: notOwn,
		},
		"completion of a kind": {
			args:   "__complete why d",
			out:    []string{"database/", ":6"},
			errors: "Completion ended with directive: ShellCompDirectiveNoSpace, ShellCompDirectiveNoFileComp\n",
		},
		"completion of a name": {
			objects: everything,
			args:    "__complete why app/w",
			out:     []string{"app/web", ":4"},
			errors:  noFiles,
		},
		"completion of a format": {args: "__complete plan -o j", out: []string{"json", "yaml", ":4"}, errors: noFiles},
		"an unknown flag":        {args: "why --wait", code: exitError, errors: "error: unknown flag: --wait\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, c.objects...)
			s.denied, s.missing = c.denied, c.missing
			got := s.windlass(t, strings.Fields(c.args)...)
			if diff := cmp.Diff(c.out, words(got.out)); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			if got.errors != c.errors {
				t.Errorf("errors %q, want %q", got.errors, c.errors)
			}
			if diff := cmp.Diff(c.writes, s.writes); diff != "" || got.code != c.code {
				t.Errorf("exit code %d, want %d; writes (-want +got):\n%s", got.code, c.code, diff)
			}
		})
	}
}

// TestCommandsPrintNoEscapeSequences has an API server whose names and texts have escape sequences.
func TestCommandsPrintNoEscapeSequences(t *testing.T) {
	const evil = "\x1b]0;title\x07\u009b31m\x7f\u202e\r\nforged"
	for _, command := range []string{
		"status", "tree app/web", "why app/web", "why app/gone", "pause app/web", "__complete why app/", "plan app/web",
		"plan -o json app/web", "plan -o yaml app/web", "plan --delete app/web",
	} {
		t.Run(command, func(t *testing.T) {
			s := newServer(t, failed, deployment, ready)
			for _, obj := range s.objects {
				obj.SetName(obj.GetName() + evil)
				obj.SetAnnotations(map[string]string{evil: evil})
				for _, field := range []string{"phase", "message"} {
					_ = unstructured.SetNestedField(obj.Object, evil, "status", field)
				}
				conditions := []any{map[string]any{"type": "Ready", "status": "False", "reason": evil, "message": evil}}
				_ = unstructured.SetNestedSlice(obj.Object, conditions, "status", "conditions")
			}
			got := s.windlass(t, strings.Fields(command)...)
			text := got.out + got.errors
			if text == "" || strings.Contains(text, "\nforged") || strings.ContainsFunc(text, func(r rune) bool {
				return r != '\n' && r != '\u202e' && !unicode.IsPrint(r)
			}) {
				t.Errorf("the command prints %q", text)
			}
		})
	}
}

func TestPlanCommand(t *testing.T) {
	const app = "apiVersion: windlass.dev/v1alpha1\nkind: App\nmetadata: {name: web}\nspec: {image: 'web:1'}\n"
	const unknown = "apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: a}\n"
	const secret = "apiVersion: v1\nkinb: Secret\nstringData: {key: canary}\n"
	for name, c := range map[string]struct {
		args, input string
		out, errors string
		code        int
	}{
		"a new App":               {"plan", app, "App shop/web is created", "", exitDifferences},
		"a new App as JSON":       {"plan -o json", app, `"consequence": "is created`, "", exitDifferences},
		"a new App as YAML":       {"plan -o yaml", app, "consequence: is created", "", exitDifferences},
		"no objects":              {"plan --all", "", "Plan: 0 to create, 0 to change, 0 to delete.\n", "", 0},
		"nothing to plan":         {"plan", "", "", nothing, exitError},
		"two things to plan":      {"plan --all app/web", "", "", nothing, exitError},
		"another output":          {"plan --all -o table", "", "", "--output must be json or yaml", exitError},
		"files and kustomization": {"plan -f a -k b", "", "", "error: -f and -k cannot be used together\n", exitError},
		"the deletion of all":     {"plan --all --delete", "", "", "--delete needs -f FILE or KIND/NAME\n", exitError},
		"all namespaces":          {"plan -A app/web", "", "", "error: --all-namespaces needs --all\n", exitError},
		"another kind":            {"plan configmap/web", "", "", notOwn, exitError},
		"a Secret without a kind": {"plan", secret, "", "Object 'Kind' is missing\n", exitError},
		"an unknown kind":         {"plan", unknown, "", "no matches for kind \"Nothing\"", exitError},
		"text that is no YAML":    {"plan", "{", "", "error: ", exitError},
		"a file that is missing":  {"plan -f /missing", "", "", "error: the path \"/missing\" does not exist\n", exitError},
		"an App that is missing":  {"plan app/gone", "", "", "error: apps.windlass.dev \"gone\" not found\n", exitError},
	} {
		t.Run(name, func(t *testing.T) {
			s, args := newServer(t, configMap), strings.Fields(c.args)
			if c.input != "" {
				file := filepath.Join(t.TempDir(), "input.yaml")
				if err := os.WriteFile(file, []byte(c.input), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "-f", file)
			}
			got := s.windlass(t, args...)
			if strings.Contains(got.out+got.errors, "canary") {
				t.Errorf("the output shows the data of a Secret:\n%s%s", got.out, got.errors)
			}
			wrong := !strings.Contains(got.errors, c.errors) || (c.errors == "") != (got.errors == "")
			wrong = wrong || !strings.Contains(got.out, c.out) || (c.out == "") != (got.out == "")
			wrong = wrong || strings.Count(got.errors, "\n") > 1
			if got.code != c.code || wrong || s.writes != nil {
				t.Errorf("exit code %d, errors %q, writes %v, output:\n%s\nwant %d, %q and %q",
					got.code, got.errors, s.writes, got.out, c.code, c.errors, c.out)
			}
		})
	}
}

// TestPlanWithoutGatewayAPI plans Apps in a cluster without the kinds of routes.
func TestPlanWithoutGatewayAPI(t *testing.T) {
	const app = "apiVersion: windlass.dev/v1alpha1\nkind: App\nmetadata: {name: web}\nspec: {image: web"
	for route, want := range map[string]string{
		"": "App shop/web is created",
		", route: {parentRefs: [{name: public}]}": "The cluster does not have the kind HTTPRoute. Install Gateway API v1",
	} {
		s := newServer(t, configMap)
		s.missing = "httproutes"
		file := filepath.Join(t.TempDir(), "app.yaml")
		if err := os.WriteFile(file, []byte(app+route+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := s.windlass(t, "plan", "-f", file)
		if got.code != exitDifferences || !strings.Contains(got.out+got.errors, want) {
			t.Errorf("the plan of an App with %q has exit code %d, and prints:\n%s%s", route, got.code, got.out, got.errors)
		}
	}
}
