package children_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// crewed returns a desired Deployment with items in several lists that are merged by key.
func crewed() *appsv1.Deployment {
	return want(func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		pod.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		pod.Volumes = []corev1.Volume{{Name: "hold", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		pod.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}
		pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "hold", MountPath: "/hold"}}
	})
}

// pod returns the spec of the Pods, and deck the first container.
func pod(d *appsv1.Deployment) *corev1.PodSpec    { return &d.Spec.Template.Spec }
func deck(d *appsv1.Deployment) *corev1.Container { return &pod(d).Containers[0] }
func variable(name, value string) corev1.EnvVar   { return corev1.EnvVar{Name: name, Value: value} }
func tcp(name string, port int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: port, Protocol: corev1.ProtocolTCP}
}
func udp(name string, port int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: port, Protocol: corev1.ProtocolUDP}
}

func TestPatchRestoresListItemWithChangedKey(t *testing.T) {
	type change = func(*appsv1.Deployment)
	sidecar := corev1.Container{Name: "sidecar", Image: "proxy:1"}
	for name, c := range map[string]struct {
		change change
		// stays makes the part of change that the patch keeps. Nil means that it keeps nothing.
		stays change
	}{
		"a container with another name": {change: func(d *appsv1.Deployment) { deck(d).Name = "ship" }},
		"a container with another name, to which others have added": {change: func(d *appsv1.Deployment) {
			deck(d).Name, deck(d).Env = "ship", append(deck(d).Env, variable("INJECTED", "yes"))
		}},
		"a container with another name, beside a sidecar": {
			change: func(d *appsv1.Deployment) {
				deck(d).Name, pod(d).Containers = "ship", append(pod(d).Containers, sidecar)
			},
			stays: func(d *appsv1.Deployment) { pod(d).Containers = append(pod(d).Containers, sidecar) },
		},
		"a port with another number":              {change: func(d *appsv1.Deployment) { deck(d).Ports[0].ContainerPort = 81 }},
		"a port with another number and protocol": {change: func(d *appsv1.Deployment) { deck(d).Ports[0] = udp("http", 81) }},
		"a port with another protocol, which is not wanted": {
			change: func(d *appsv1.Deployment) { deck(d).Ports[0] = udp("http", 80) },
			stays:  func(d *appsv1.Deployment) { deck(d).Ports[0] = udp("http", 80) },
		},
		"a port without a name":            {change: func(d *appsv1.Deployment) { deck(d).Ports[0].Name = "" }},
		"the same port again":              {change: func(d *appsv1.Deployment) { deck(d).Ports = append(deck(d).Ports, tcp("again", 80)) }},
		"the same port again, before ours": {change: func(d *appsv1.Deployment) { deck(d).Ports = []corev1.ContainerPort{tcp("again", 80), tcp("http", 80)} }},
		"the port of another protocol, which others have added": {
			change: func(d *appsv1.Deployment) { deck(d).Ports = append(deck(d).Ports, udp("quic", 80)) },
			stays:  func(d *appsv1.Deployment) { deck(d).Ports = append(deck(d).Ports, udp("quic", 80)) },
		},
		"the port of another protocol in our place": {
			change: func(d *appsv1.Deployment) { deck(d).Ports = []corev1.ContainerPort{udp("quic", 80)} },
			stays:  func(d *appsv1.Deployment) { deck(d).Ports = []corev1.ContainerPort{udp("quic", 80), tcp("http", 80)} },
		},
		"another number beside the port of another protocol": {
			change: func(d *appsv1.Deployment) { deck(d).Ports = []corev1.ContainerPort{udp("quic", 80), tcp("http", 81)} },
			stays:  func(d *appsv1.Deployment) { deck(d).Ports = []corev1.ContainerPort{udp("quic", 80), tcp("http", 80)} },
		},
		"another port": {
			change: func(d *appsv1.Deployment) { deck(d).Ports = append(deck(d).Ports, tcp("debug", 81)) },
			stays:  func(d *appsv1.Deployment) { deck(d).Ports = append(deck(d).Ports, tcp("debug", 81)) },
		},
		"a variable with another name":      {change: func(d *appsv1.Deployment) { deck(d).Env[0].Name = "RUDDER" }},
		"a variable with the name of ours":  {change: func(d *appsv1.Deployment) { deck(d).Env[0].Name = "FLAG" }},
		"variables that have changed names": {change: func(d *appsv1.Deployment) { deck(d).Env[0].Name, deck(d).Env[1].Name = "FLAG", "SAIL" }},
		"the same variable again":           {change: func(d *appsv1.Deployment) { deck(d).Env = append(deck(d).Env, variable("SAIL", "black")) }},
		"the same variable again, with the image": {change: func(d *appsv1.Deployment) {
			deck(d).Env, deck(d).Image = append(deck(d).Env, variable("SAIL", "black")), "iron:1"
		}},
		"others add a copy of a variable under another name": {
			change: func(d *appsv1.Deployment) { deck(d).Env = append(deck(d).Env, variable("COPY", "white")) },
			stays:  func(d *appsv1.Deployment) { deck(d).Env = append(deck(d).Env, variable("COPY", "white")) },
		},
		"a variable that others have added in place of ours": {
			change: func(d *appsv1.Deployment) { deck(d).Env[1] = variable("HELM", "left") },
			stays:  func(d *appsv1.Deployment) { deck(d).Env = append(deck(d).Env, variable("HELM", "left")) },
		},
		"a mount at another path": {change: func(d *appsv1.Deployment) { deck(d).VolumeMounts[0].MountPath = "/else" }},
		"a mount of the same volume elsewhere, which others have added": {
			change: func(d *appsv1.Deployment) {
				deck(d).VolumeMounts = append(deck(d).VolumeMounts, corev1.VolumeMount{Name: "hold", MountPath: "/else"})
			},
			stays: func(d *appsv1.Deployment) {
				deck(d).VolumeMounts = append(deck(d).VolumeMounts, corev1.VolumeMount{Name: "hold", MountPath: "/else"})
			},
		},
		"a volume with another name": {change: func(d *appsv1.Deployment) { pod(d).Volumes[0].Name, deck(d).VolumeMounts[0].Name = "tank", "tank" }},
		"a volume with another name, which a sidecar mounts": {
			change: func(d *appsv1.Deployment) {
				pod(d).Volumes[0].Name, deck(d).VolumeMounts[0].Name = "tank", "tank"
				pod(d).Containers = append(pod(d).Containers, mounting(sidecar, "tank"))
			},
			stays: func(d *appsv1.Deployment) {
				pod(d).Containers = append(pod(d).Containers, mounting(sidecar, "tank"))
				tank := *pod(d).Volumes[0].DeepCopy()
				tank.Name = "tank"
				pod(d).Volumes = append(pod(d).Volumes, tank)
			},
		},
		"a pull secret with another name": {change: func(d *appsv1.Deployment) { pod(d).ImagePullSecrets[0].Name = "else" }},
		"a pull secret without a name":    {change: func(d *appsv1.Deployment) { pod(d).ImagePullSecrets[0].Name = "" }},
		"the same pull secret again": {change: func(d *appsv1.Deployment) {
			pod(d).ImagePullSecrets = append(pod(d).ImagePullSecrets, pod(d).ImagePullSecrets[0])
		}},
		"a list that is gone": {change: func(d *appsv1.Deployment) { deck(d).Env, deck(d).Ports, pod(d).ImagePullSecrets = nil, nil, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := crewed()
			live, ends := served(t, wanted), served(t, wanted)
			c.change(live)
			if c.stays != nil {
				c.stays(ends)
			}
			ends = ordered(ends)
			live = puts(t, wanted, live)
			controllertest.Equal(t, "the child", ends, ordered(live))
			if _, patch, err := new(children.Type[*appsv1.Deployment]).Compare(wanted, live); patch != nil || err != nil {
				t.Errorf("it is patched once more: %s (%v)", patch, err)
			}
		})
	}
}

func mounting(c corev1.Container, volume string) corev1.Container {
	c.VolumeMounts = []corev1.VolumeMount{{Name: volume, MountPath: "/tank"}}
	return c
}

// served returns a Deployment as the API server has it after its creation.
func served(t *testing.T, wanted *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	live := wanted.DeepCopy()
	record, err := new(children.Type[*appsv1.Deployment]).RecordOf(wanted)
	if err != nil {
		t.Fatal(err)
	}
	live.Annotations = map[string]string{children.RecordAnnotation: record}
	live.UID, live.ResourceVersion = "child-uid", "7"
	for i := range deck(live).Ports {
		deck(live).Ports[i].Protocol = corev1.ProtocolTCP
	}
	deck(live).ImagePullPolicy = corev1.PullIfNotPresent
	return live
}

// puts returns live after the patch that brings it to the desired state.
func puts(t *testing.T, wanted, live *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	asWanted, patch, err := new(children.Type[*appsv1.Deployment]).Compare(wanted, live)
	if err != nil || asWanted && patch != nil {
		t.Fatalf("as wanted: %v, and yet the patch is %s (%v)", asWanted, patch, err)
	}
	if patch == nil {
		return live
	}
	text, err := json.Marshal(live)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = strategicpatch.StrategicMergePatch(text, patch, appsv1.Deployment{}); err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	return read[*appsv1.Deployment](t, json.RawMessage(text))
}

// ordered returns a copy of d with sorted lists, with protocols of ports, and without image pull policies. A
// container that a patch adds again gets its policy only from the API server.
func ordered(d *appsv1.Deployment) *appsv1.Deployment {
	d = d.DeepCopy()
	order := func(a, b string) int { return strings.Compare(a, b) }
	slices.SortFunc(pod(d).Containers, func(a, b corev1.Container) int { return order(a.Name, b.Name) })
	slices.SortFunc(pod(d).Volumes, func(a, b corev1.Volume) int { return order(a.Name, b.Name) })
	for i := range pod(d).Containers {
		c := &pod(d).Containers[i]
		c.ImagePullPolicy = ""
		for j := range c.Ports {
			if c.Ports[j].Protocol == "" {
				c.Ports[j].Protocol = corev1.ProtocolTCP
			}
		}
		slices.SortFunc(c.Ports, func(a, b corev1.ContainerPort) int { return order(a.Name, b.Name) })
		slices.SortFunc(c.Env, func(a, b corev1.EnvVar) int { return order(a.Name, b.Name) })
		slices.SortFunc(c.VolumeMounts, func(a, b corev1.VolumeMount) int { return order(a.MountPath, b.MountPath) })
	}
	return d
}

// An item that another client added is not taken for a renamed item if the desired item is new, even if both
// have the same value.
func TestPatchKeepsForeignItemBesideNewDesiredItem(t *testing.T) {
	live := served(t, crewed())
	deck(live).Env = append(deck(live).Env, variable("COPY", "black"))
	wanted := crewed()
	deck(wanted).Env = append(deck(wanted).Env, variable("HELM", "black"))
	live = puts(t, wanted, live)
	names := map[string]bool{}
	for _, v := range deck(live).Env {
		names[v.Name] = true
	}
	controllertest.Equal(t, "variables", map[string]bool{"SAIL": true, "FLAG": true, "COPY": true, "HELM": true}, names)
}

func TestPatchRestoresServicePortWithChangedKey(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "port", Name: "boat"}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
	}}
	all := children.Type[*corev1.Service]{}
	record, err := all.RecordOf(service)
	if err != nil {
		t.Fatal(err)
	}
	ours := corev1.ServicePort{Name: "http", Port: 80, TargetPort: intstr.FromString("http"), Protocol: corev1.ProtocolTCP}
	debug := corev1.ServicePort{Name: "debug", Port: 8081, TargetPort: intstr.FromInt32(8081), Protocol: corev1.ProtocolTCP}
	quic := corev1.ServicePort{Name: "quic", Port: 80, TargetPort: intstr.FromString("quic"), Protocol: corev1.ProtocolUDP}
	with := func(change func(*corev1.ServicePort)) corev1.ServicePort {
		port := ours
		change(&port)
		return port
	}
	for name, c := range map[string]struct{ are, become []corev1.ServicePort }{
		"another number":                     {are: []corev1.ServicePort{with(func(p *corev1.ServicePort) { p.Port = 8081 })}, become: []corev1.ServicePort{ours}},
		"another name":                       {are: []corev1.ServicePort{with(func(p *corev1.ServicePort) { p.Name = "web" })}, become: []corev1.ServicePort{ours}},
		"another number and target":          {are: []corev1.ServicePort{with(func(p *corev1.ServicePort) { p.Port, p.TargetPort = 81, intstr.FromInt32(81) })}, become: []corev1.ServicePort{ours}},
		"a number and a protocol":            {are: []corev1.ServicePort{with(func(p *corev1.ServicePort) { p.Port, p.Protocol = 81, corev1.ProtocolUDP })}, become: []corev1.ServicePort{ours}},
		"another number, beside another's":   {are: []corev1.ServicePort{debug, with(func(p *corev1.ServicePort) { p.Port = 81 })}, become: []corev1.ServicePort{debug, ours}},
		"another's number instead of ours":   {are: []corev1.ServicePort{debug}, become: []corev1.ServicePort{ours, debug}},
		"another's protocol instead of ours": {are: []corev1.ServicePort{quic}, become: []corev1.ServicePort{quic, ours}},
		"another's protocol before ours":     {are: []corev1.ServicePort{quic, ours}, become: []corev1.ServicePort{quic, ours}},
		"another's protocol after ours":      {are: []corev1.ServicePort{ours, quic}, become: []corev1.ServicePort{ours, quic}},
	} {
		t.Run(name, func(t *testing.T) {
			live := service.DeepCopy()
			live.Annotations, live.Spec.Ports = map[string]string{children.RecordAnnotation: record}, c.are
			_, patch, err := all.Compare(service, live)
			if err != nil {
				t.Fatal(err)
			}
			if patch != nil {
				text, _ := json.Marshal(live) // cannot fail, because it was decoded from JSON
				if text, err = strategicpatch.StrategicMergePatch(text, patch, corev1.Service{}); err != nil {
					t.Fatalf("%s: %v", patch, err)
				}
				live = read[*corev1.Service](t, json.RawMessage(text))
			}
			for i := range live.Spec.Ports {
				if live.Spec.Ports[i].Protocol == "" {
					live.Spec.Ports[i].Protocol = corev1.ProtocolTCP
				}
			}
			controllertest.Equal(t, "ports", c.become, live.Spec.Ports)
			if _, patch, err := all.Compare(service, live); patch != nil || err != nil {
				t.Errorf("it is patched once more: %s (%v)", patch, err)
			}
		})
	}
}
