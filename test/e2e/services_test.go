//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestExamplesOfServicesRun creates an equivalent of each object in artifacts/examples/services: the image of E2E_IMAGE
// takes the place of the programs, serves the paths of their probes, and writes to their volumes.
func TestExamplesOfServicesRun(t *testing.T) {
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob(filepath.Join(root, "artifacts", "examples", "services", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("finding the examples: %v", err)
	}
	command := regexp.MustCompile(`(?m)^#   kubectl (.*)$`)
	for _, example := range examples {
		t.Run(strings.TrimSuffix(filepath.Base(example), ".yaml"), func(t *testing.T) {
			t.Parallel()
			namespace := here.NewNamespace(t)
			manifest, err := os.ReadFile(example)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range command.FindAllStringSubmatch(string(manifest), -1) {
				if _, err := kubectl(t.Context(), "", append(strings.Fields(match[1]), "-n", namespace)...); err != nil {
					t.Fatal(err)
				}
			}
			for _, document := range bytes.Split(manifest, []byte("\n---\n")) {
				runExample(t, namespace, document)
			}
		})
	}
}

// runExample creates the equivalent of an object of an example, and checks an App.
func runExample(t *testing.T, namespace string, document []byte) {
	t.Helper()
	object := struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     json.RawMessage
	}{}
	if err := yaml.Unmarshal(document, &object); err != nil {
		t.Fatal(err)
	}
	switch name := object.Metadata.Name; object.Kind {
	case "Database":
		here.CreateDatabase(t, namespace, name, postgresSpec())
	case "App":
		spec := v1alpha1.AppSpec{}
		if err := json.Unmarshal(object.Spec, &spec); err != nil {
			t.Fatal(err)
		}
		spec = standIn(t, spec)
		here.CreateApp(t, namespace, name, spec)
		here.AppIn(t, namespace, name, v1alpha1.AppReady)
		checkExample(t, namespace, name, spec)
	default:
		t.Fatalf("the example has a %s", object.Kind)
	}
}

// standIn returns the spec of an example with the image of E2E_IMAGE, which has a shell and the HTTP server of busybox.
// The App has no route, because the cluster may lack Gateway API, and a user ID, because the cluster may assign none.
func standIn(t *testing.T, spec v1alpha1.AppSpec) v1alpha1.AppSpec {
	t.Helper()
	spec.Image, spec.Route = atImage(), nil
	script := "mkdir -p /dev/shm/www; echo started\n"
	for _, probe := range probesOf(&spec) {
		if probe.HTTPGet != nil {
			file := path.Join("/dev/shm/www", probe.HTTPGet.Path, "index.html")
			script += fmt.Sprintf("mkdir -p %s; echo ready > %s\n", path.Dir(file), file)
			probe.HTTPGet.Path, probe.HTTPGet.Scheme = strings.TrimSuffix(probe.HTTPGet.Path, "/")+"/", ""
		}
	}
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.Claim != nil || v.EmptyDir != nil {
			script += fmt.Sprintf("touch %s/written || exit 1\n", v.MountPath)
		}
	}
	for _, port := range portsOf(&spec) {
		script += fmt.Sprintf("httpd -p %d -h /dev/shm/www\n", port)
	}
	script += "trap 'exit 0' TERM; while true; do sleep 1; done\n"
	spec.Command = []string{"sh", "-c", script}
	if spec.BeforeRollout != nil {
		spec.BeforeRollout.Command = []string{"sh", "-c", "test -n \"$MM_SQLSETTINGS_DATASOURCE\""}
	}
	spec.PodTemplate = withUser(t, spec.PodTemplate)
	return spec
}

// probesOf replaces the field probe of a spec by probes, and returns the probes.
func probesOf(spec *v1alpha1.AppSpec) (all []*v1alpha1.AppContainerProbe) {
	if spec.Probe != nil {
		spec.Probes = &v1alpha1.AppProbes{Readiness: &v1alpha1.AppContainerProbe{
			HTTPGet: &v1alpha1.AppHTTPGet{Path: spec.Probe.Path},
		}}
		spec.Probe = nil
	}
	if spec.Probes != nil {
		for _, probe := range []*v1alpha1.AppContainerProbe{
			spec.Probes.Startup, spec.Probes.Liveness, spec.Probes.Readiness,
		} {
			if probe != nil {
				all = append(all, probe)
			}
		}
	}
	return all
}

// portsOf returns the ports of an App. An App without ports listens on 8080, unless it has an empty list.
func portsOf(spec *v1alpha1.AppSpec) (all []int32) {
	for i := range spec.Ports {
		all = append(all, spec.Ports[i].Port)
	}
	switch {
	case spec.Ports != nil:
	case spec.Port != 0:
		all = append(all, spec.Port)
	default:
		all = append(all, 8080)
	}
	return all
}

// withUser returns a Pod template with a user ID, and with the image of E2E_IMAGE for all containers.
func withUser(t *testing.T, template *cnatv1.PodTemplate) *cnatv1.PodTemplate {
	t.Helper()
	if template == nil {
		template = &cnatv1.PodTemplate{}
	}
	spec := map[string]any{}
	if template.Spec != nil {
		if err := json.Unmarshal(template.Spec.Raw, &spec); err != nil {
			t.Fatal(err)
		}
	}
	security := map[string]any{"runAsUser": 1000}
	if given, ok := spec["securityContext"].(map[string]any); ok {
		maps.Copy(security, given)
	}
	if security["$patch"] == "replace" { // the example relies on a cluster that assigns a user and a group
		security["fsGroup"] = 1000
	}
	spec["securityContext"] = security
	if containers, ok := spec["containers"].([]any); ok {
		for _, container := range containers {
			maps.Copy(container.(map[string]any), map[string]any{"image": atImage(), "command": []string{"sleep", "600"}})
		}
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	template.Spec = &runtime.RawExtension{Raw: raw}
	return template
}

// checkExample checks that the container has started its program, and that each port of the Service leads to it.
func checkExample(t *testing.T, namespace, name string, spec v1alpha1.AppSpec) {
	t.Helper()
	log, err := kubectl(t.Context(), "", "logs", "-n", namespace, "deployment/"+name, "--container=app")
	if err != nil || !strings.HasPrefix(log, "started\n") {
		t.Errorf("the log is %q: %v", log, err)
	}
	service, err := here.Kube.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if spec.Ports != nil && len(spec.Ports) == 0 {
		if !apierrors.IsNotFound(err) {
			t.Errorf("a worker has a Service: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range service.Spec.Ports {
		framework.Eventually(t, fmt.Sprintf("port %s of the Service", port.Name), func(ctx context.Context) (bool, error) {
			_, err := kubectl(ctx, "", "get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/services/http:%s:%d/proxy%s",
				namespace, name, port.Port, servedPath(spec)))
			return err == nil, nil
		})
	}
}

// servedPath returns a path that the program of standIn serves.
func servedPath(spec v1alpha1.AppSpec) string {
	for _, probe := range probesOf(&spec) {
		if probe.HTTPGet != nil {
			return probe.HTTPGet.Path
		}
	}
	return "/"
}
