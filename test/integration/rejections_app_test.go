//go:build integration

package integration

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// TestRejectionsOfAppsNameTheFieldAndSayWhatItNeeds creates Apps with a field that contradicts another field.
func TestRejectionsOfAppsNameTheFieldAndSayWhatItNeeds(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	for name, c := range map[string]struct {
		spec string // without the image
		want []string
	}{
		"port beside ports": {
			`"port":80,"ports":[{"name":"http","port":80}]`, []string{"spec: ", "port and ports must not both be set"},
		},
		"a Service without a port": {
			`"ports":[],"service":{"type":"NodePort"}`, []string{"spec: ", "an empty list of ports has no Service"},
		},
		"an Ingress that leads to UDP": {
			`"ports":[{"name":"dns","port":53,"protocol":"UDP"}],"ingress":{"host":"a.example.com"}`,
			[]string{"spec: ", "the first entry of ports, which must have protocol TCP"},
		},
		"two readiness probes": {
			`"probe":{"path":"/"},"probes":{"readiness":{"tcpSocket":{}}}`,
			[]string{"spec: ", "probe and probes.readiness must not both be set"},
		},
		"a probe without a port": {
			`"ports":[],"probes":{"liveness":{"tcpSocket":{}}}`, []string{"spec: ", "has no default port"},
		},
		"host beside hosts": {
			`"ingress":{"host":"a.example.com","hosts":["b.example.com"]}`,
			[]string{"spec.ingress: ", "either host or hosts"},
		},
		"one of several hosts": {
			`"ingress":{"hosts":["a.example.com","Shop_1"]}`, []string{"spec.ingress.hosts: ", "must be a DNS name"},
		},
		"the path of a GRPCRoute": {
			`"ports":[{"name":"a","port":80,"appProtocol":"grpc"}],"route":{"parentRefs":[{"name":"a"}],"path":"/"}`,
			[]string{"spec: ", "a GRPCRoute has no path"},
		},
		"an IP address as a hostname": {
			`"route":{"parentRefs":[{"name":"a"}],"hostnames":["10.0.0.1"]}`,
			[]string{"spec.route.hostnames: ", "must be a DNS name", "and no IP address"},
		},
		"an annotation of a GitOps tool": {
			`"ingress":{"host":"a.example.com","annotations":{"argocd.argoproj.io/tracking-id":"a"}}`,
			[]string{"spec.ingress.annotations: ", "are reserved"},
		},
		"the class of an Ingress as an annotation": {
			`"ingress":{"host":"a.example.com","annotations":{"kubernetes.io/ingress.class":"a"}}`,
			[]string{"spec.ingress.annotations: ", "set className instead"},
		},
		"the name of the container": {
			`"containerName":"a_b"`, []string{"spec.containerName: ", "begins and ends with a letter or a digit"},
		},
		"the name of a port": {
			`"ports":[{"name":"1","port":80}]`, []string{"spec.ports[0].name: ", "at least one letter"},
		},
		"the same port twice": {
			`"ports":[{"name":"a","port":80},{"name":"b","port":80}]`,
			[]string{"spec.ports: ", "two entries of ports have the same port and protocol"},
		},
		"the same port of the Service twice": {
			`"ports":[{"name":"a","port":81,"servicePort":80},{"name":"b","port":82,"servicePort":80}]`,
			[]string{"spec.ports: ", "two entries of ports have the same servicePort and protocol"},
		},
		"the same name of a volume twice": {
			`"volumes":[{"name":"a","mountPath":"/a","emptyDir":{}},{"name":"a","mountPath":"/b","emptyDir":{}}]`,
			[]string{"spec.volumes: ", "two entries of volumes have the same name"},
		},
		"a liveness probe that must succeed twice": {
			`"probes":{"liveness":{"tcpSocket":{},"successThreshold":2}}`,
			[]string{"spec.probes: ", "successThreshold of a startup or liveness probe must be 1"},
		},
		"a probe with two actions": {
			`"probes":{"startup":{"tcpSocket":{},"exec":{"command":["true"]}}}`,
			[]string{"spec.probes.startup: ", "exactly one of httpGet, tcpSocket, grpc and exec"},
		},
		"a surge of Recreate": {
			`"rollout":{"strategy":"Recreate","maxSurge":1}`,
			[]string{"spec.rollout: ", "have no effect with strategy Recreate"},
		},
		"a word as maxSurge": {
			`"rollout":{"maxSurge":"half"}`, []string{"spec.rollout.maxSurge: ", "must be a number, or a percentage"},
		},
		"a word as maxUnavailable": {
			`"rollout":{"maxUnavailable":"half"}`,
			[]string{"spec.rollout.maxUnavailable: ", "must be a number, or a percentage"},
		},
		"a traffic policy of a ClusterIP": {
			`"service":{"externalTrafficPolicy":"Local"}`, []string{"spec.service: ", "needs type NodePort or LoadBalancer"},
		},
		"the class of a load balancer": {
			`"service":{"loadBalancerClass":"a/b"}`, []string{"spec.service: ", "need type LoadBalancer"},
		},
		"a volume with two sources": {
			`"volumes":[{"mountPath":"/a","emptyDir":{},"secret":{"name":"a"}}]`,
			[]string{"spec.volumes[0]: ", "exactly one of claim"},
		},
		"a claim without a name": {
			`"volumes":[{"mountPath":"/a","claim":{"size":"1Gi"}}]`, []string{"spec.volumes[0]: ", "a claim needs a name"},
		},
		"reload of a single file": {
			`"volumes":[{"mountPath":"/a","subPath":"a","secret":{"name":"a","reload":true}}]`,
			[]string{"spec.volumes[0]: ", "reload has no effect with subPath"},
		},
		"the volume of the files of config": {
			`"volumes":[{"name":"app-config","mountPath":"/a","emptyDir":{}}]`,
			[]string{"spec.volumes[0].name: ", "app-config is reserved"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := `{"apiVersion":"windlass.dev/v1alpha1","kind":"App","metadata":{"name":"bad"},` +
				`"spec":{"image":"shop:1",` + c.spec + `}}`
			if !json.Valid([]byte(manifest)) {
				t.Fatalf("the manifest is not JSON: %s", manifest)
			}
			_, err := shared.Kubectl(t.Context(), manifest, "create", "-n", namespace, "--dry-run=server", "-f", "-")
			wantRejection(t, err, c.want...)
		})
	}
}

func TestClaimOfAppKeepsClassAndAccessModes(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.CreateApp(t, namespace, "shop", v1alpha1.AppSpec{Image: "shop:1", Volumes: []v1alpha1.AppVolume{
		{Name: "data", MountPath: "/data", Claim: &v1alpha1.AppClaim{Size: resource.MustParse("1Gi")}},
	}})
	for field, c := range map[string]struct{ value, want string }{
		"storageClassName": {`"other"`, "storageClassName cannot be changed"},
		"accessModes":      {`["ReadWriteMany"]`, "accessModes cannot be changed"},
	} {
		t.Run(field, func(t *testing.T) {
			_, err := shared.Kubectl(t.Context(), "", "patch", "app/shop", "-n", namespace, "--type=json", "-p",
				`[{"op":"add","path":"/spec/volumes/0/claim/`+field+`","value":`+c.value+`}]`)
			wantRejection(t, err, "spec.volumes[0].claim: ", c.want)
		})
	}
}
