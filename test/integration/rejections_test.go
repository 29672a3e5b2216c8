//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// badSchedule is the message of the API server for an invalid schedule.
const badSchedule = "schedule must be a time in RFC 3339, such as 2026-02-10T20:30:00Z"

func TestRejectionsNameTheFieldAndSayWhatItNeeds(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	const ats, windlass = "cnat.programming-kubernetes.info/", "windlass.dev/v1alpha1"
	for name, c := range map[string]struct {
		version, kind, name, spec string
		want                      []string
	}{
		"the name of an At": {
			ats + "v1", "At", strings.Repeat("a", 250), `{"schedule":"2020-01-01T00:00:00Z","command":["true"]}`,
			[]string{"metadata: ", "249 characters"},
		},
		"the name of an At of v1alpha1": {
			ats + "v1alpha1", "At", strings.Repeat("a", 250), `{"schedule":"2020-01-01T00:00:00Z","command":"true"}`,
			[]string{"metadata: ", "249 characters"},
		},
		"a word as schedule": {
			ats + "v1", "At", "bad", `{"schedule":"tomorrow","command":["true"]}`, []string{"spec.schedule: ", badSchedule},
		},
		"a year that is not allowed": {
			ats + "v1", "At", "bad", `{"schedule":"9000-01-01T00:00:00Z","command":["true"]}`, []string{
				"spec.schedule: ", badSchedule, "1970 to 8999",
			},
		},
		"a day that never occurs": {
			ats + "v1alpha1", "At", "bad", `{"schedule":"2030-02-30T00:00:00Z","command":"true"}`, []string{
				"spec.schedule: ", badSchedule,
			},
		},
		"the name of an App": {
			windlass, "App", "a.b", `{"image":"shop:1"}`, []string{"metadata: ", "must be valid for a Service"},
		},
		"the host of an App": {
			windlass, "App", "bad", `{"image":"shop:1","ingress":{"host":"Shop_1"}}`, []string{
				"spec.ingress.host: ", "must be a DNS name in lower case",
			},
		},
		"the name of a Database": {
			windlass, "Database", "a.b", `{"version":"17","storage":{"size":"1Gi"}}`, []string{
				"metadata: ", "must be valid for a Service",
			},
		},
		"the name of an ExternalDatabase": {
			windlass, "ExternalDatabase", strings.Repeat("a", 242),
			`{"databaseName":"a","connectionSecretRef":{"name":"a"}}`, []string{"metadata: ", "241 characters"},
		},
		"the ExternalDatabase's own Secret": {
			windlass, "ExternalDatabase", "bad",
			`{"databaseName":"a","connectionSecretRef":{"name":"bad-credentials"}}`, []string{
				"spec.connectionSecretRef.name: ", "must not name",
			},
		},
		"the name of a Platform": {
			windlass, "Platform", "a.b", `{"namespace":"a","components":[]}`, []string{
				"metadata: ", "valid beginning of the name of a Service",
			},
		},
		"the name of a component": {
			windlass, "Platform", strings.Repeat("a", 60),
			`{"namespace":"a","components":[{"name":"long","app":{"image":"a"}}]}`, []string{
				"spec.components: ", "at most 63 characters",
			},
		},
		"the schedule of a component": {
			windlass, "Platform", "bad",
			`{"namespace":"a","components":[{"name":"a","at":{"schedule":"8 pm","command":["true"]}}]}`, []string{
				"spec.components[0].at.schedule: ", badSchedule,
			},
		},

		"a key in a file as a variable": {
			windlass, "App", "bad",
			`{"image":"a","env":[{"name":"A","valueFrom":{"fileKeyRef":{"path":"a","volumeName":"a","key":"a"}}}]}`,
			[]string{"spec.env[0].valueFrom.fileKeyRef: ", "fileKeyRef cannot be used"},
		},
		"a request above the limit": {
			windlass, "App", "bad", `{"image":"a","resources":{"requests":{"cpu":1},"limits":{"cpu":"500m"}}}`,
			[]string{"spec.resources: ", "a request must not be greater than the limit"},
		},
		"a request above the limit in a component": {
			windlass, "Platform", "bad", `{"namespace":"a","components":[{"name":"a","at":{"schedule":"2030-02-10T20:30:00Z",` +
				`"command":["true"],"resources":{"requests":{"memory":"2Gi"},"limits":{"memory":"1Gi"}}}}]}`,
			[]string{"spec.components[0].at.resources: ", "a request must not be greater than the limit"},
		},
		"a claim of a device": {
			windlass, "App", "bad", `{"image":"a","resources":{"claims":[{"name":"a"}]}}`, []string{
				"spec.resources.claims: ", "resources.claims cannot be used",
			},
		},
		"autoscaling without a request": {
			windlass, "App", "bad", `{"image":"a","autoscaling":{"maxReplicas":3}}`, []string{
				"spec: ", "autoscaling needs resources.requests.cpu",
			},
		},
		"a target for memory without a request": {
			windlass, "App", "bad",
			`{"image":"a","resources":{"requests":{"cpu":"1"}},"autoscaling":{"maxReplicas":3,` +
				`"targetMemoryUtilizationPercentage":80}}`,
			[]string{"spec: ", "targetMemoryUtilizationPercentage needs resources.requests.memory"},
		},
		"minReplicas of 0 without a metric": {
			windlass, "App", "bad",
			`{"image":"a","resources":{"requests":{"cpu":"1"}},"autoscaling":{"minReplicas":0,"maxReplicas":3}}`,
			[]string{"spec.autoscaling: ", "minReplicas may only be 0"},
		},
		"more minReplicas than maxReplicas": {
			windlass, "App", "bad",
			`{"image":"a","resources":{"requests":{"cpu":"1"}},"autoscaling":{"minReplicas":4,"maxReplicas":3}}`,
			[]string{"spec.autoscaling: ", "must not be greater"},
		},
		"beforeRollout without a command": {
			windlass, "App", "bad", `{"image":"a","beforeRollout":{}}`, []string{
				"spec.beforeRollout: ", "beforeRollout needs command, args or image",
			},
		},
		"a file in another folder": {
			windlass, "App", "bad", `{"image":"a","config":{"../passwd":"a"}}`, []string{"spec.config: ", "the name of a file"},
		},
		"files that are too large": {
			windlass, "App", "bad", `{"image":"a","config":{"a":"` + strings.Repeat("a", 1<<18) + `","b":"` +
				strings.Repeat("b", 1<<18+1) + `"}}`, []string{"spec.config: ", "524288 characters in total"},
		},
		"imagePullSecrets without a name": {
			windlass, "App", "bad", `{"image":"a","imagePullSecrets":[{}]}`, []string{"spec.imagePullSecrets: ", "needs a name"},
		},
		"a path with an empty segment": {
			windlass, "App", "bad", `{"image":"a","ingress":{"host":"a.example.com","path":"/a//b"}}`, []string{
				"spec.ingress.path: ", "empty segment",
			},
		},
		"the database postgres": {
			windlass, "Database", "bad", `{"version":"17","storage":{"size":"1Gi"},"databaseName":"postgres"}`,
			[]string{"spec.databaseName: ", "databaseName may have"},
		},
		"an owner of PostgreSQL": {
			windlass, "Database", "bad", `{"version":"17","storage":{"size":"1Gi"},"owner":"pg_read_all_data"}`,
			[]string{"spec.owner: ", "must not begin with pg_"},
		},
		"a parameter in upper case": {
			windlass, "Database", "bad", `{"version":"17","storage":{"size":"1Gi"},"parameters":{"Work_Mem":"1"}}`,
			[]string{"spec.parameters: ", "the name of a parameter"},
		},
		"a parameter of the operator": {
			windlass, "Database", "bad", `{"version":"17","storage":{"size":"1Gi"},"parameters":{"port":"1"}}`,
			[]string{"spec.parameters: ", "because the operator controls them"},
		},
		"a parameter of TLS": {
			windlass, "Database", "bad", `{"version":"17","storage":{"size":"1Gi"},"parameters":{"ssl":"off"}}`,
			[]string{"spec.parameters: ", "because tls specifies"},
		},
		"a write-ahead log that is too small for backups": {
			windlass, "Database", "bad", `{"version":"17","storage":{"size":"1Gi"},"parameters":{"wal_level":"minimal"}}`,
			[]string{"spec.parameters: ", "wal_level must be replica or logical"},
		},
		"too few connections for backups": {
			windlass, "Database", "bad", `{"version":"17","storage":{"size":"1Gi"},"parameters":{"max_wal_senders":"9"}}`,
			[]string{"spec.parameters: ", "must be numbers from 10 to 9999"},
		},
		"a certificate without TLS": {
			windlass, "Database", "bad", `{"version":"17","storage":{"size":"1Gi"},"tls":{"mode":"Disabled","secretName":"a"}}`,
			[]string{"spec.tls: ", "secretName has no effect"},
		},
		"a certificate of the operator": {
			windlass, "Database", "bad", `{"version":"17","storage":{"size":"1Gi"},"tls":{"secretName":"bad-certificate"}}`,
			[]string{"spec.tls.secretName: ", "the operator creates"},
		},
		"a volume without a size": {
			windlass, "Database", "bad", `{"version":"17","storage":{"size":"0"}}`, []string{
				"spec.storage.size: ", "must be above 0",
			},
		},
		"a schedule of backups that is no schedule": {
			windlass, "Database", "bad", `{"version":"17","storage":{"size":"1Gi"},"backup":{"schedule":"daily",` +
				`"destination":{"claim":{"size":"1Gi"}}}}`, []string{
				"spec.backup.schedule: ", "must have the five fields",
			},
		},
		"a backup without space": {
			windlass, "Database", "bad", `{"version":"17","storage":{"size":"1Gi"},"backup":{` +
				`"destination":{"claim":{"size":"0"}}}}`, []string{"spec.backup.destination.claim.size: ", "must be above 0"},
		},
		"a volume that is larger than its largest size": {
			windlass, "Database", "bad", `{"version":"17","storage":{"size":"2Gi","maxSize":"2147483647"}}`, []string{
				"spec.storage.maxSize: ", "must not be below storage.size",
			},
		},
		"a database whose name is no role": {
			windlass, "ExternalDatabase", "bad", `{"databaseName":"pg_shop","connectionSecretRef":{"name":"a"}}`,
			[]string{"spec: ", "owner must be set"},
		},
		"the namespace of Kubernetes": {
			windlass, "Platform", "bad", `{"namespace":"kube-system","components":[]}`, []string{
				"spec.namespace: ", "must not begin with kube-",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			manifest, err := json.Marshal(map[string]any{
				"apiVersion": c.version, "kind": c.kind, "metadata": map[string]any{
					"name": c.name,
				}, "spec": json.RawMessage(c.spec),
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = shared.Kubectl(t.Context(), string(manifest), "create", "-n", namespace, "--dry-run=server", "-f", "-")
			wantRejection(t, err, c.want...)
		})
	}
	shared.Create(t, namespace, "stored", "true", nil)
	shared.CreateDatabase(t, namespace, "stored", framework.SmallestDatabase())
	shared.DatabaseIn(t, namespace, "stored", v1alpha1.DatabaseReady)
	_, err := shared.Kubectl(t.Context(), "", "patch", "database/stored", "-n", namespace, "--type=merge", "-p",
		`{"spec":{"storage":{"size":"1"}}}`)
	wantRejection(t, err, "spec.storage.size: ", "cannot shrink")
	_, err = shared.Kubectl(t.Context(), "", "patch", "database/stored", "-n", namespace, "--type=merge", "-p",
		`{"spec":{"storage":{"storageClassName":"other"}}}`)
	wantRejection(t, err, "spec.storage: ", "storageClassName cannot be changed")
	external := fmt.Sprintf(`{"apiVersion":%q,"kind":"ExternalDatabase","metadata":{"name":"stored"},`+
		`"spec":{"databaseName":"a","connectionSecretRef":{"name":"a"}}}`, windlass)
	if _, err := shared.Kubectl(t.Context(), external, "create", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	_, err = shared.Kubectl(t.Context(), "", "patch", "externaldatabase/stored", "-n", namespace, "--type=merge", "-p",
		`{"spec":{"owner":"other"}}`)
	wantRejection(t, err, "spec: ", "owner cannot be changed")
	for _, version := range []string{"v1", "v1alpha1"} {
		_, err := shared.Kubectl(t.Context(), "", "patch", "ats."+version+".cnat.programming-kubernetes.info/stored",
			"-n", namespace, "--subresource=status", "--type=json", "-p", `[{"op":"remove","path":"/status"}]`)
		wantRejection(t, err, "status: ", "must not be removed")
	}
}

// wantRejection fails the test unless err is an error of the API server that contains all words.
func wantRejection(t *testing.T, err error, words ...string) {
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
