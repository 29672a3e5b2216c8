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

func TestServerArgsEscapeDollarSigns(t *testing.T) {
	if strings.Contains(startScript, "$$") {
		t.Error("the start script has $$, which the kubelet replaces with $")
	}
	db := example(func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"search_path": `"$user", public`, "archive_command": "echo $(PGDATA)", "port": "1"}
	})
	controllertest.Equal(t, "arguments", []string{
		"-c", "archive_command=echo $$(PGDATA)", "-c", "port=1", "-c", `search_path="$$user", public`,
		"-c", "listen_addresses=*", "-c", "port=5432", "-c", "unix_socket_directories=/var/run/postgresql",
	}, serverArgs(db))
}
