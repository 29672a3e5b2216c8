//go:build integration

package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/world"
)

// badSchedule is the message of the API server for an invalid schedule.
const badSchedule = "schedule must be a time in RFC 3339, such as 2026-02-10T20:30:00Z"

func TestRefusalsNameTheFieldAndSayWhatItNeeds(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	const ats, windlass = "cnat.programming-kubernetes.info/", "windlass.dev/v1alpha1"
	for name, c := range map[string]struct {
		version, kind, name, spec string
		want                      []string
	}{
		"the name of an At":                 {ats + "v1", "At", strings.Repeat("a", 250), `{"schedule":"2020-01-01T00:00:00Z","command":["true"]}`, []string{"metadata: ", "249 characters"}},
		"the name of an At of v1alpha1":     {ats + "v1alpha1", "At", strings.Repeat("a", 250), `{"schedule":"2020-01-01T00:00:00Z","command":"true"}`, []string{"metadata: ", "249 characters"}},
		"a word as schedule":                {ats + "v1", "At", "bad", `{"schedule":"tomorrow","command":["true"]}`, []string{"spec.schedule: ", badSchedule}},
		"a year that is not allowed":        {ats + "v1", "At", "bad", `{"schedule":"9000-01-01T00:00:00Z","command":["true"]}`, []string{"spec.schedule: ", badSchedule, "1970 to 8999"}},
		"a day that never occurs":           {ats + "v1alpha1", "At", "bad", `{"schedule":"2030-02-30T00:00:00Z","command":"true"}`, []string{"spec.schedule: ", badSchedule}},
		"the name of an App":                {windlass, "App", "a.b", `{"image":"shop:1"}`, []string{"metadata: ", "must be valid for a Service"}},
		"the host of an App":                {windlass, "App", "bad", `{"image":"shop:1","ingress":{"host":"Shop_1"}}`, []string{"spec.ingress.host: ", "must be a DNS name in lower case"}},
		"the name of a Database":            {windlass, "Database", "a.b", `{"version":"17","storage":{"size":"1Gi"}}`, []string{"metadata: ", "must be valid for a Service"}},
		"the name of an ExternalDatabase":   {windlass, "ExternalDatabase", strings.Repeat("a", 242), `{"databaseName":"a","connectionSecretRef":{"name":"a"}}`, []string{"metadata: ", "241 characters"}},
		"the ExternalDatabase's own Secret": {windlass, "ExternalDatabase", "bad", `{"databaseName":"a","connectionSecretRef":{"name":"bad-credentials"}}`, []string{"spec.connectionSecretRef.name: ", "must not name"}},
		"the name of a Platform":            {windlass, "Platform", "a.b", `{"namespace":"a","components":[]}`, []string{"metadata: ", "valid beginning of the name of a Service"}},
		"the name of a component":           {windlass, "Platform", strings.Repeat("a", 60), `{"namespace":"a","components":[{"name":"long","app":{"image":"a"}}]}`, []string{"spec.components: ", "at most 63 characters"}},
		"the schedule of a component":       {windlass, "Platform", "bad", `{"namespace":"a","components":[{"name":"a","at":{"schedule":"8 pm","command":["true"]}}]}`, []string{"spec.components[0].at.schedule: ", badSchedule}},
	} {
		t.Run(name, func(t *testing.T) {
			manifest, err := json.Marshal(map[string]any{"apiVersion": c.version, "kind": c.kind, "metadata": map[string]any{"name": c.name}, "spec": json.RawMessage(c.spec)})
			if err != nil {
				t.Fatal(err)
			}
			_, err = shared.Kubectl(t.Context(), string(manifest), "create", "-n", namespace, "--dry-run=server", "-f", "-")
			wantRefusal(t, err, c.want...)
		})
	}
	shared.Create(t, namespace, "stored", "true", nil)
	shared.CreateDatabase(t, namespace, "stored", world.SmallestDatabase())
	shared.DatabaseIn(t, namespace, "stored", v1alpha1.DatabaseReady)
	_, err := shared.Kubectl(t.Context(), "", "patch", "database/stored", "-n", namespace, "--type=merge", "-p", `{"spec":{"storage":{"size":"1"}}}`)
	wantRefusal(t, err, "spec.storage.size: ", "cannot shrink")
	for _, version := range []string{"v1", "v1alpha1"} {
		_, err := shared.Kubectl(t.Context(), "", "patch", "ats."+version+".cnat.programming-kubernetes.info/stored", "-n", namespace, "--subresource=status", "--type=json", "-p", `[{"op":"remove","path":"/status"}]`)
		wantRefusal(t, err, "status: ", "must not be removed")
	}
}

// wantRefusal fails the test unless the API server refused a request with an error that contains all words.
func wantRefusal(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Error("the API server accepted the object")
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not contain %q: %v", word, err)
		}
	}
	for _, word := range []string{"<nil>", "should match"} {
		if strings.Contains(err.Error(), word) {
			t.Errorf("the error contains %q: %v", word, err)
		}
	}
}
