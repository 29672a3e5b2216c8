package children_test

import (
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

var (
	errInvalid = apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "boat",
		field.ErrorList{field.Invalid(field.NewPath("spec"), "white", "not allowed beside black")})
	// errDenied is the error of a write that a ValidatingAdmissionPolicy denies.
	errDenied = &apierrors.StatusError{ErrStatus: metav1.Status{
		Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "no ship without a name"}}},
	}}
	errConflict = apierrors.NewConflict(appsv1.Resource("deployments"), "boat", nil)
)

// crewed returns a desired Deployment with items in several lists that are merged by key.
func crewed(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	return want(append([]func(*appsv1.Deployment){func(d *appsv1.Deployment) {
		pod(d).ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		pod(d).Volumes = []corev1.Volume{emptyVolume("hold")}
		deck(d).Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}
		deck(d).VolumeMounts = []corev1.VolumeMount{{Name: "hold", MountPath: "/hold"}}
	}}, changes...)...)
}

// pod returns the spec of the Pods, and deck the first container.
func pod(d *appsv1.Deployment) *corev1.PodSpec    { return &d.Spec.Template.Spec }
func deck(d *appsv1.Deployment) *corev1.Container { return &pod(d).Containers[0] }
func variable(name, value string) corev1.EnvVar   { return corev1.EnvVar{Name: name, Value: value} }
func emptyVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

func TestEnsureRestoresListItems(t *testing.T) {
	type change = func(*appsv1.Deployment)
	quic := corev1.ContainerPort{Name: "quic", ContainerPort: 80, Protocol: corev1.ProtocolUDP}
	for name, c := range map[string]struct {
		change change
		idle   bool // nothing is written
		// stays makes the part of change that stays. Nil means that nothing stays.
		stays change
	}{
		"a renamed container": {change: func(d *appsv1.Deployment) { deck(d).Name = "ship" }},
		"a renamed variable":  {change: func(d *appsv1.Deployment) { deck(d).Env[0].Name = "RUDDER" }},
		"a variable of somebody else in place of a desired one": {
			change: func(d *appsv1.Deployment) { deck(d).Env[1] = variable("HELM", "left") },
			stays:  func(d *appsv1.Deployment) { deck(d).Env = append(deck(d).Env, variable("HELM", "left")) },
		},
		"a renamed container beside the init container of somebody else": {
			change: func(d *appsv1.Deployment) {
				deck(d).Name = "ship"
				pod(d).InitContainers = []corev1.Container{{Name: "theirs", Image: "theirs:1"}}
			},
		},
		"a port with another number": {change: func(d *appsv1.Deployment) { deck(d).Ports[0].ContainerPort = 81 }},
		"a variable of somebody else beside the desired ones": {
			change: func(d *appsv1.Deployment) { deck(d).Env = append(deck(d).Env, variable("HELM", "left")) },
			stays:  func(d *appsv1.Deployment) { deck(d).Env = append(deck(d).Env, variable("HELM", "left")) }, idle: true,
		},
		"a port of another protocol beside the desired one": {
			change: func(d *appsv1.Deployment) { deck(d).Ports = append(deck(d).Ports, quic) },
			stays:  func(d *appsv1.Deployment) { deck(d).Ports = append(deck(d).Ports, quic) }, idle: true,
		},
		"a port of another protocol in place of the desired one": {
			change: func(d *appsv1.Deployment) { deck(d).Ports[0] = quic },
		},
		"a variable with the name of another": {change: func(d *appsv1.Deployment) { deck(d).Env[0].Name = "FLAG" }},
		"a repeated variable": {
			change: func(d *appsv1.Deployment) { deck(d).Env = append(deck(d).Env, variable("SAIL", "white")) }},
		"a repeated variable with another value, and another image": {change: func(d *appsv1.Deployment) {
			deck(d).Env, deck(d).Image = append(deck(d).Env, variable("SAIL", "black")), "iron:1"
		}},
		"a pull secret without a name": {change: func(d *appsv1.Deployment) { pod(d).ImagePullSecrets[0].Name = "" }},
		"a renamed pull secret":        {change: func(d *appsv1.Deployment) { pod(d).ImagePullSecrets[0].Name = "harbor" }},
		"a repeated pull secret": {change: func(d *appsv1.Deployment) {
			pod(d).ImagePullSecrets = append(pod(d).ImagePullSecrets, pod(d).ImagePullSecrets[0])
		}},
		"a renamed volume and its mount": {
			change: func(d *appsv1.Deployment) { pod(d).Volumes[0].Name, deck(d).VolumeMounts[0].Name = "tank", "tank" },
		},
		"empty lists": {change: func(d *appsv1.Deployment) {
			deck(d).Env, deck(d).Ports, pod(d).ImagePullSecrets = nil, nil, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			live, ends := madeOf(t, crewed(), c.change), madeOf(t, crewed())
			if c.stays != nil {
				c.stays(ends)
			}
			d := newDock(t, nil, []*appsv1.Deployment{live})
			writes := 1
			if c.idle {
				writes = 0
			}
			controllertest.Equal(t, "writes", writes, d.ensure(t, crewed()))
			controllertest.Equal(t, "child", normal(ends), normal(d.live(t)))
			controllertest.Equal(t, "writes at rest", 0, d.ensure(t, crewed()))
		})
	}
}

// A strategic merge finds the ports of a Service by their number alone.
func TestEnsureRestoresServicePortBesidePortOfSameNumber(t *testing.T) {
	port := func(name string, number int32, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, Protocol: protocol, TargetPort: intstr.FromInt32(number)}
	}
	tcp, udp := port("dns-tcp", 53, corev1.ProtocolTCP), port("dns", 53, corev1.ProtocolUDP)
	debug := port("debug", 6060, corev1.ProtocolTCP)
	for name, c := range map[string]struct{ live, ends []corev1.ServicePort }{
		"the second port is missing":                {[]corev1.ServicePort{tcp}, []corev1.ServicePort{udp, tcp}},
		"the first port is missing, beside another": {[]corev1.ServicePort{debug, tcp}, []corev1.ServicePort{udp, tcp}},
		"both ports are there, beside a port of others": {
			[]corev1.ServicePort{udp, tcp, debug}, []corev1.ServicePort{udp, tcp, debug},
		},
		"both ports have the same protocol": {
			[]corev1.ServicePort{udp, port("dns-tcp", 53, corev1.ProtocolUDP)}, []corev1.ServicePort{udp, tcp},
		},
		"both ports are missing, and others have added one": {[]corev1.ServicePort{debug}, []corev1.ServicePort{udp, tcp}},
	} {
		t.Run(name, func(t *testing.T) {
			kube, indexer := fake.NewClientset(), cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			services := children.Type[*corev1.Service]{
				Resource: children.Resource[*corev1.Service]{
					Kind: "Service", Client: func(ns string) children.Client[*corev1.Service] { return kube.CoreV1().Services(ns) },
				},
				Cache: children.CacheOf[*corev1.Service](indexer), Tracker: controller.NewTracker(),
			}
			desired := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "port", Name: "boat"}}
			desired.Spec.Ports = []corev1.ServicePort{udp, tcp}
			live, err := services.Ensure(t.Context(), owner(), desired, nil)
			if err != nil {
				t.Fatal(err)
			}
			live.UID, live.ResourceVersion, live.Spec.Ports = "child-uid", "7", c.live
			if err := kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("services"), live, "port"); err != nil {
				t.Fatal(err)
			}
			controllertest.Load(t, indexer, live)
			got, err := services.Ensure(t.Context(), owner(), desired, nil)
			if err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "ports", c.ends, got.Spec.Ports)
			patches := len(kube.Actions())
			controllertest.Load(t, indexer, got)
			if _, err := services.Ensure(t.Context(), owner(), desired, nil); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "requests at rest", patches, len(kube.Actions()))
		})
	}
}

// Each merge keeps less of what other clients set than the merge before it.
func TestEnsureTriesNextMergeAfterRejection(t *testing.T) {
	const patch = "patch deployments port/boat"
	restartedAt := []string{"spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"}
	desired := want(replicas(nil)) // an autoscaler sets the replicas
	drifted := madeOf(t, desired, byOthers, replicas(ptr.To[int32](20)), func(d *appsv1.Deployment) {
		ours(d).Image, d.Spec.Template.Annotations["team"] = "iron:1", "shop"
	})
	strategic, jsonMerge := types.StrategicMergePatchType, types.MergePatchType
	repaired := func(d *appsv1.Deployment) { ours(d).Image = "wood:1" }
	withoutItems := func(d *appsv1.Deployment) { pod(d).Containers = desired.DeepCopy().Spec.Template.Spec.Containers }
	withoutFields := func(d *appsv1.Deployment) { delete(d.Spec.Template.Annotations, "team") }
	type change = func(*appsv1.Deployment)
	for name, c := range map[string]struct {
		answers  []error
		outlives bool
		err      error
		patches  []types.PatchType
		keeps    []change // the changes that turn drifted into the final child
	}{
		"a merge that is accepted keeps fields and list items of others": {
			patches: []types.PatchType{strategic}, keeps: []change{repaired}},
		"a merge after one rejection keeps fields of others": {
			answers: []error{errInvalid},
			patches: []types.PatchType{strategic, jsonMerge}, keeps: []change{withoutItems}},
		"a merge after two rejections keeps what others took over": {
			answers: []error{errInvalid, errInvalid},
			patches: []types.PatchType{strategic, jsonMerge, jsonMerge}, keeps: []change{withoutItems, withoutFields}},
		"after three rejections the child stays": {
			answers: []error{errInvalid, errInvalid, errInvalid}, err: errInvalid,
			patches: []types.PatchType{strategic, jsonMerge, jsonMerge}},
		"a denial by a policy is no reason for another merge": {
			answers: []error{errDenied}, err: errDenied, patches: []types.PatchType{strategic}},
		"a conflict is no reason for another merge": {
			answers: []error{errConflict}, err: errConflict, patches: []types.PatchType{strategic}},
		"a write of somebody else after a rejection stays": {
			answers: []error{errInvalid, errConflict}, err: errConflict, patches: []types.PatchType{strategic, jsonMerge}},
		"a child that outlives its owner gets no other merge": {
			answers: []error{errInvalid}, outlives: true, err: errInvalid, patches: []types.PatchType{strategic}},
	} {
		t.Run(name, func(t *testing.T) {
			live := drifted.DeepCopy()
			if c.outlives {
				live.OwnerReferences, live.Annotations[children.MadeForAnnotation] = nil, "Ship.example.com/boat"
			}
			d := newDock(t, []*appsv1.Deployment{live}, []*appsv1.Deployment{live})
			d.Outlives, d.Yielded = c.outlives, append(d.Yielded, restartedAt)
			for _, err := range c.answers {
				d.journal.FailNext("patch", "deployments", err)
			}
			_, err := d.Ensure(t.Context(), owner(), desired, nil)
			controllertest.Equal(t, "reason of the error", apierrors.ReasonForError(c.err), apierrors.ReasonForError(err))
			var patches []types.PatchType
			for _, action := range d.kube.Actions() {
				patches = append(patches, action.(clienttesting.PatchAction).GetPatchType())
			}
			controllertest.Equal(t, "patches", c.patches, patches)
			for _, write := range d.journal.Writes() { // each patch has a precondition
				controllertest.Equal(t, "write", patch, write)
			}
			ends := live.DeepCopy()
			for _, change := range c.keeps {
				change(ends)
			}
			controllertest.Equal(t, "child", normal(ends), normal(d.live(t)))
		})
	}
}
