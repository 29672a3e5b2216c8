package database

import (
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestDatabaseImage(t *testing.T) {
	for name, c := range map[string]struct{ flag, spec, want string }{
		"the default is the image of Docker":       {want: "postgres:17"},
		"the flag sets the image without the tag":  {flag: "registry.example.com:5000/library/postgres", want: "registry.example.com:5000/library/postgres:17"},
		"the image in the spec overrides the flag": {flag: "mirror/postgres", spec: "postgres@sha256:0123", want: "postgres@sha256:0123"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixtureWith(t, Options{Image: c.flag}, example(withImage(c.spec)))
			r := f.Reconcile()
			controllertest.ErrorContains(t, "", r.Err)
			controllertest.Equal(t, "image", c.want, f.statefulSet().Spec.Template.Spec.Containers[0].Image)
		})
	}
}

func TestScriptHasNoReferencesToVariables(t *testing.T) {
	for _, reference := range []string{"$$", "$(PG", "$(STATE", "$(SETTINGS"} {
		if strings.Contains(serverScript, reference) {
			t.Errorf("the script has %s, which the kubelet replaces", reference)
		}
	}
}

func TestParametersAreLines(t *testing.T) {
	db := example(func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"search_path": `"$user", public`, "archive_command": "echo $(PGDATA)", "work_mem": ""}
	})
	controllertest.Equal(t, "parameters", "archive_command=echo $(PGDATA)\nsearch_path=\"$user\", public\nwork_mem=", parameters(db))
}
