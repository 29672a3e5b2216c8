// Package site is an example of a kind with a ConfigMap, a Deployment, a Service, an Ingress and a finalizer:
// docs/adding-a-kind.md explains it.
package site

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/rollout"
)

// API holds the informer, the lister and the client of Sites that generated code provides.
type API struct {
	Informer cache.SharedIndexInformer
	Lister   func(namespace string) controller.Lister[*Site]
	Client   func(namespace string) controller.Client[*Site]
}

// scope is the state that the steps of one reconcile share.
type scope struct {
	children.Owner
	site       *Site
	deployment *appsv1.Deployment // nil until the Deployment was applied
}

// Declare returns the declaration of Site. registry is the URL of the registry that knows all Sites.
func Declare(c cluster.Cluster, sites API, registry string) (controller.Kind[*Site], error) {
	return children.Kind[*Site, *scope]{
		Kind: controller.Kind[*Site]{
			GroupVersionKind: GroupVersionKind,
			Informer:         sites.Informer,
			Lister:           sites.Lister,
			Client:           sites.Client,
			Finalizer: controller.Finalizer[*Site]{
				Name: "web.example.com/registry",
				Finalize: func(ctx context.Context, s *Site) (controller.Result, error) {
					return controller.Result{}, removeFrom(ctx, registry, s)
				},
			},
			Resync: 10 * time.Minute,
		},
		Scope: func(s *Site, owner children.Owner) *scope { return &scope{Owner: owner, site: s} },
		Children: []children.Child[*scope]{
			&children.Declaration[*scope, *corev1.ConfigMap]{
				Resource: c.ConfigMaps(),
				Suffix:   filesSuffix,
				Desired:  func(s *scope) *corev1.ConfigMap { return &corev1.ConfigMap{Data: s.site.Spec.Files} },
			},
			&children.Declaration[*scope, *appsv1.Deployment]{
				Resource: c.Deployments(),
				Needs:    []string{"ConfigMap" + filesSuffix},
				Desired:  desiredDeployment,
				Applied:  func(s *scope, live *appsv1.Deployment) { s.deployment = live },
			},
			children.Owns(c.Services(), desiredService),
			&children.Declaration[*scope, *networkingv1.Ingress]{
				Resource: c.Ingresses(),
				Needs:    []string{"Service"},
				When:     func(s *scope) bool { return s.site.Spec.Host != "" },
				Desired:  desiredIngress,
				Yielded:  [][]string{{"spec", "ingressClassName"}}, // the API server sets it only at the creation
			},
		},
		Finish: finish,
	}.Declare()
}

// finish sets the status, and returns the result of the reconcile.
func finish(s *scope, err error) (controller.Result, error) {
	if err == nil {
		rollout.Summarize(s.deployment, 1).SetOn(s.site)
	}
	return controller.Result{}, err
}

// removeFrom removes a Site from the registry. It succeeds if the registry does not know the Site.
func removeFrom(ctx context.Context, registry string, s *Site) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	doing := fmt.Sprintf("removing Site %s/%s from the registry", s.Namespace, s.Name)
	entry, err := url.JoinPath(registry, s.Namespace, s.Name)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, entry, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices && response.StatusCode != http.StatusNotFound {
		return fmt.Errorf("%s: the registry responds %s", doing, response.Status)
	}
	return nil
}

const (
	filesSuffix = "-files"
	port        = 8080
)

// selectorOf returns the labels of the Pods. They never change: the selector of a Deployment is immutable.
func selectorOf(s *scope) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "site", "app.kubernetes.io/instance": s.site.Name}
}

func desiredDeployment(s *scope) *appsv1.Deployment {
	files, _ := json.Marshal(s.site.Spec.Files) // marshaling strings cannot fail
	sum := sha256.Sum256(files)
	volume := corev1.Volume{Name: "files"}
	volume.ConfigMap = &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: s.site.Name + filesSuffix},
	}
	return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: selectorOf(s)},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Labels:      selectorOf(s),
				Annotations: map[string]string{"web.example.com/files": hex.EncodeToString(sum[:8])}, // new files replace the Pods
			},
			Spec: corev1.PodSpec{
				AutomountServiceAccountToken: ptr.To(false),
				Containers: []corev1.Container{{
					Name: "server", Image: s.site.Spec.Image,
					Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: port}},
					VolumeMounts: []corev1.VolumeMount{{Name: volume.Name, MountPath: "/srv"}},
				}},
				Volumes: []corev1.Volume{volume},
			},
		},
	}}
}

func desiredService(s *scope) *corev1.Service {
	return &corev1.Service{Spec: corev1.ServiceSpec{
		Selector: selectorOf(s),
		Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(port)}},
	}}
}

func desiredIngress(s *scope) *networkingv1.Ingress {
	service := &networkingv1.IngressServiceBackend{Name: s.site.Name, Port: networkingv1.ServiceBackendPort{Number: 80}}
	path := networkingv1.HTTPIngressPath{
		Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{Service: service},
	}
	rule := networkingv1.IngressRule{Host: s.site.Spec.Host}
	rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}}
	return &networkingv1.Ingress{Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{rule}}}
}
