//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// fieldOfPodTemplate is a field of podTemplate.spec, or of the App's container in it.
type fieldOfPodTemplate struct {
	// value is the field as JSON.
	value string
	// beside has fields, as JSON without braces, without which the API server rejects the field.
	beside string
	// rejected is part of the message of an App whose field is rejected, and empty otherwise.
	rejected string
	// dropped is true if the API server drops the field, because its feature gate is off by default.
	dropped bool
}

// fieldsOfPod maps the JSON name of each field of a Pod to a value.
var fieldsOfPod = map[string]fieldOfPodTemplate{
	"volumes":                       {value: `[{"name":"a","emptyDir":{"medium":"Memory"}}]`},
	"initContainers":                {value: `[{"name":"a","image":"a:1","restartPolicy":"Always"}]`},
	"containers":                    {value: `[{"name":"proxy","image":"proxy:1","ports":[{"containerPort":9}]}]`},
	"ephemeralContainers":           {value: `[{"name":"a","image":"a:1"}]`, rejected: ".spec.ephemeralContainers"},
	"restartPolicy":                 {value: `"Never"`, rejected: "spec.template.spec.restartPolicy"},
	"terminationGracePeriodSeconds": {value: `60`},
	"activeDeadlineSeconds":         {value: `60`, rejected: "spec.template.spec.activeDeadlineSeconds"},
	"dnsPolicy":                     {value: `"Default"`},
	"nodeSelector":                  {value: `{"a":"b"}`},
	"serviceAccountName":            {value: `"a"`, rejected: "set serviceAccountName in the spec instead"},
	"serviceAccount":                {value: `"a"`, rejected: "set serviceAccountName in the spec instead"},
	"automountServiceAccountToken":  {value: `true`},
	"nodeName":                      {value: `"a"`},
	"hostNetwork":                   {value: `true`},
	"hostPID":                       {value: `true`},
	"hostIPC":                       {value: `true`},
	"shareProcessNamespace":         {value: `true`},
	"securityContext":               {value: `{"runAsNonRoot":false,"sysctls":[{"name":"a","value":"1"}]}`},
	"imagePullSecrets":              {value: `[{"name":"a"}]`},
	"hostname":                      {value: `"a"`},
	"subdomain":                     {value: `"a"`},
	"affinity": {value: `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` +
		`{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}}}`},
	"schedulerName":             {value: `"a"`},
	"tolerations":               {value: `[{"operator":"Exists"},{"operator":"Exists","effect":"NoSchedule"}]`},
	"hostAliases":               {value: `[{"ip":"10.0.0.1","hostnames":["a","b"]}]`},
	"priorityClassName":         {value: `"system-node-critical"`},
	"priority":                  {value: `1`},
	"dnsConfig":                 {value: `{"nameservers":["10.0.0.1"],"options":[{"name":"ndots","value":"2"}]}`},
	"readinessGates":            {value: `[{"conditionType":"example.com/a"}]`},
	"runtimeClassName":          {value: `"a"`},
	"enableServiceLinks":        {value: `true`},
	"preemptionPolicy":          {value: `"Never"`},
	"overhead":                  {value: `{"cpu":"100m"}`, beside: `"runtimeClassName":"a"`},
	"topologySpreadConstraints": {value: `[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"ScheduleAnyway"}]`},
	"setHostnameAsFQDN":         {value: `true`},
	"os":                        {value: `{"name":"linux"}`},
	"hostUsers":                 {value: `false`},
	"schedulingGates":           {value: `[{"name":"a"}]`},
	"resourceClaims":            {value: `[{"name":"a","resourceClaimName":"a"}]`},
	"resources":                 {value: `{"limits":{"memory":"1Gi"}}`},
	"hostnameOverride":          {value: `"a"`},
	"schedulingGroup":           {value: `{"podGroupName":"a"}`, dropped: true},
	"evictionResponders":        {value: `[{"name":"example.com/a","priority":1000}]`, dropped: true},
}

// Volumes for fieldOfPodTemplate.beside.
const (
	emptyVolume = `"volumes":[{"name":"a","emptyDir":{}}]`
	blockVolume = `"volumes":[{"name":"a","persistentVolumeClaim":{"claimName":"a"}}]`
)

// fieldsOfContainer maps the JSON name of each field of the App's container to a value.
var fieldsOfContainer = map[string]fieldOfPodTemplate{
	"image":         {value: `"b:1"`, rejected: "containers[name=app].image must not be set"},
	"command":       {value: `["b"]`, rejected: "containers[name=app].command must not be set"},
	"args":          {value: `["b"]`, rejected: "containers[name=app].args must not be set"},
	"workingDir":    {value: `"/a"`},
	"ports":         {value: `[{"containerPort":9,"protocol":"UDP","name":"a"}]`},
	"envFrom":       {value: `[{"secretRef":{"name":"a"}}]`},
	"env":           {value: `[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]`},
	"resources":     {value: `{"limits":{"memory":"1Gi"}}`},
	"resizePolicy":  {value: `[{"resourceName":"cpu","restartPolicy":"NotRequired"}]`},
	"restartPolicy": {value: `"OnFailure"`},
	"restartPolicyRules": {
		value:    `[{"action":"Restart","exitCodes":{"operator":"In","values":[42]}}]`,
		rejected: "must specify restartPolicy when restart rules are used",
	},
	"volumeMounts":             {value: `[{"name":"a","mountPath":"/a"}]`, beside: emptyVolume},
	"volumeDevices":            {value: `[{"name":"a","devicePath":"/a"}]`, beside: blockVolume},
	"livenessProbe":            {value: `{"tcpSocket":{"port":8080}}`},
	"readinessProbe":           {value: `{"periodSeconds":3,"failureThreshold":9}`},
	"startupProbe":             {value: `{"exec":{"command":["a"]},"failureThreshold":30}`},
	"lifecycle":                {value: `{"postStart":{"exec":{"command":["a"]}}}`},
	"terminationMessagePath":   {value: `"/a"`},
	"terminationMessagePolicy": {value: `"File"`},
	"imagePullPolicy":          {value: `"Always"`},
	"securityContext":          {value: `{"readOnlyRootFilesystem":true,"capabilities":{"add":["NET_BIND_SERVICE"]}}`},
	"stdin":                    {value: `true`},
	"stdinOnce":                {value: `true`},
	"tty":                      {value: `true`},
}

// TestEachFieldOfPodTemplateReachesPodsAndLeavesNoTrace sets each field of a Pod and of the container by podTemplate,
// and then removes podTemplate.
func TestEachFieldOfPodTemplateReachesPodsAndLeavesNoTrace(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	plain := templateOf(t, namespace, "plain", "", nil)
	for _, part := range []struct {
		of     reflect.Type
		fields map[string]fieldOfPodTemplate
		spec   string // the format of podTemplate.spec
		path   []string
	}{
		{reflect.TypeFor[corev1.PodSpec](), fieldsOfPod, `{%s%s}`, nil},
		{reflect.TypeFor[corev1.Container](), fieldsOfContainer, `{"containers":[{"name":"app",%s}]%s}`, nil},
	} {
		for i := range part.of.NumField() {
			name, _, _ := strings.Cut(part.of.Field(i).Tag.Get("json"), ",")
			field, known := part.fields[name]
			if !known && name != "name" {
				t.Errorf("this test does not set the field %s of %s", name, part.of)
			}
			if !known {
				continue
			}
			t.Run(part.of.Name()+"/"+name, func(t *testing.T) {
				t.Parallel()
				beside := ""
				if field.beside != "" {
					beside = "," + field.beside
				}
				spec := fmt.Sprintf(part.spec, fmt.Sprintf("%q:%s", name, field.value), beside)
				app := strings.ToLower(part.of.Name() + "-" + name)
				changed := templateOf(t, namespace, app, spec, &field)
				if got := includes(asJSON(t, changed), decode(t, spec)); field.rejected == "" && got == field.dropped {
					t.Errorf("the template has %s: %t:\n%v", spec, got, asJSON(t, changed))
				}
				shared.UpdateApp(t, namespace, app, func(app *v1alpha1.App) { app.Spec.PodTemplate = nil })
				difference := ""
				framework.Eventually(t, "the template to be as before", func(ctx context.Context) (bool, error) {
					d, err := shared.Kube.AppsV1().Deployments(namespace).Get(ctx, app, metav1.GetOptions{})
					if err != nil {
						return false, framework.IgnoreNotFound(err)
					}
					now := cmp.Diff(plain, &d.Spec.Template.Spec)
					if now != difference {
						t.Logf("difference (-without podTemplate +after its removal): %s", now)
					}
					difference = now
					return difference == "", nil
				})
				patches, err := shared.Requests(func(r framework.Request) bool {
					return r.Verb == "patch" && r.ObjectRef.Resource == "deployments" && r.ObjectRef.Name == app &&
						r.ObjectRef.Namespace == namespace && r.User.Username == framework.ControllerUser
				})
				if err != nil || len(patches) > 2 {
					t.Errorf("the operator patched the Deployment %d times: %v", len(patches), err)
				}
			})
		}
	}
}

// templateOf creates an App without Pods and with a podTemplate.spec, and returns the spec of its Pod template. If the
// field is rejected, it waits for the message instead.
func templateOf(t *testing.T, namespace, name, spec string, field *fieldOfPodTemplate) *corev1.PodSpec {
	t.Helper()
	app := v1alpha1.AppSpec{Image: "a:1", Replicas: ptr.To[int32](0), Port: 8080, Probe: &v1alpha1.AppProbe{Path: "/"}}
	if spec != "" {
		app.PodTemplate = &cnatv1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(spec)}}
	}
	shared.CreateApp(t, namespace, name, app)
	if field != nil && field.rejected != "" {
		shared.AppWith(t, namespace, name, "an App that reports "+field.rejected, func(app *v1alpha1.App) bool {
			ready := meta.FindStatusCondition(app.Status.Conditions, "Ready")
			return ready != nil && strings.Contains(ready.Message, field.rejected)
		})
		return nil
	}
	shared.AppIn(t, namespace, name, v1alpha1.AppReady)
	d, err := shared.Kube.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &d.Spec.Template.Spec
}

// asJSON returns a value as decoded JSON.
func asJSON(t *testing.T, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(text))
}

func decode(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// includes reports whether a JSON value has all fields and items of another.
func includes(value, part any) bool {
	switch part := part.(type) {
	case map[string]any:
		object, _ := value.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(part)) {
			if !includes(object[key], part[key]) {
				return false
			}
		}
		return object != nil
	case []any:
		list, _ := value.([]any)
		return !slices.ContainsFunc(part, func(wanted any) bool {
			return !slices.ContainsFunc(list, func(item any) bool { return includes(item, wanted) })
		})
	default:
		return reflect.DeepEqual(value, part)
	}
}
