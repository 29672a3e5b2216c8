package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/test/framework"
)

// lab is an API server without other clients. It has no controller manager, whose work would influence the
// measurements.
type lab struct {
	*framework.Cluster
	*player
	kube     kubernetes.Interface
	windlass versioned.Interface
}

// namespaces is the number of namespaces of the Apps. clients is the maximum number of requests that the
// benchmark itself sends at a time.
const namespaces, clients = 20, 16

func newLab(ctx context.Context, dir string) (*lab, error) {
	c, err := framework.StartCluster(dir)
	if err != nil {
		return nil, err
	}
	l := &lab{Cluster: c}
	if l.player, err = newPlayer(c.Config()); err != nil {
		return nil, err
	}
	for _, component := range podComponents {
		if err := c.Stop(component); err != nil {
			return nil, err
		}
	}
	root, err := framework.Root()
	if err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(root, "artifacts", "crds")},
		{"wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"},
	} {
		if _, err := c.Kubectl(ctx, "", args...); err != nil {
			return nil, err
		}
	}
	if l.kube, err = kubernetes.NewForConfig(l.config); err != nil {
		return nil, err
	}
	if l.windlass, err = versioned.NewForConfig(l.config); err != nil {
		return nil, err
	}
	return l, l.createNamespaces(ctx, namespaces, namespace)
}

// createNamespaces creates n namespaces with the given names.
func (l *lab) createNamespaces(ctx context.Context, n int, name func(i int) string) error {
	return l.each(ctx, n, func(ctx context.Context, i int) error {
		if _, err := l.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name(i)},
		}, metav1.CreateOptions{}); err != nil {
			return err
		}
		// Without a ServiceAccount, the API server rejects Pods.
		_, err := l.kube.CoreV1().ServiceAccounts(name(i)).Create(ctx, &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Name: "default"},
		}, metav1.CreateOptions{})
		return err
	})
}

func namespace(i int) string { return fmt.Sprintf("bench-%02d", i%namespaces) }

// each calls do n times, with up to clients concurrent calls, and returns the first error.
func (l *lab) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan int)
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for i := range work {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		work <- i
	}
	close(work)
	group.Wait()
	return context.Cause(ctx)
}

// subject is a kind that a contestant reconciles.
type subject struct {
	of schema.GroupVersionResource
	// child is the resource of the first child.
	child schema.GroupVersionResource
	// writes is the number of writes that Windlass sends for an object, including Events.
	writes int
	name   func(i int) string
	// namespace returns the namespace of the object with number i. All these namespaces have names of the same length.
	namespace func(i int) string
	create    func(ctx context.Context, l *lab, i int) error
}

// appsIn returns the kind App, with objects in the given namespaces.
func appsIn(namespace func(i int) string) subject {
	return subject{
		of: v1alpha1.SchemeGroupVersion.WithResource("apps"), child: childTypes[0], writes: len(childTypes) + 2,
		name: func(i int) string { return app(i).Name }, namespace: namespace,
		create: func(ctx context.Context, l *lab, i int) error {
			_, err := l.windlass.WindlassV1alpha1().Apps(namespace(i)).Create(ctx, app(i), metav1.CreateOptions{})
			return err
		},
	}
}

var appSubject = appsIn(namespace)

// create creates the objects whose numbers are in [from, to).
func (l *lab) create(ctx context.Context, s subject, from, to int) error {
	return l.each(ctx, to-from, func(ctx context.Context, i int) error {
		if err := s.create(ctx, l, from+i); err != nil {
			return fmt.Errorf("creating %s %s/%s: %w", s.of.Resource, s.namespace(from+i), s.name(from+i), err)
		}
		return nil
	})
}

// app returns the App with number i. Its children are a ConfigMap, a Deployment, a Service and an Ingress.
func app(i int) *v1alpha1.App {
	class := "nginx"
	return &v1alpha1.App{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("app-%05d", i)},
		Spec: v1alpha1.AppSpec{
			Image: "registry.example.com/shop:1", Port: 8080,
			Env:     []corev1.EnvVar{{Name: "LEVEL", Value: "info"}},
			Config:  map[string]string{"shop.toml": "currency = \"EUR\"\n"},
			Probe:   &v1alpha1.AppProbe{Path: "/healthz"},
			Ingress: &v1alpha1.AppIngress{Host: fmt.Sprintf("app-%05d.example.com", i), Path: "/", ClassName: &class},
		},
	}
}

// childTypes are the resources of the children of an App.
var childTypes = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Version: "v1", Resource: "services"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
}

// wipe deletes all objects, their children and their Events.
func (l *lab) wipe(ctx context.Context) error {
	types := append([]schema.GroupVersionResource{
		appSubject.of, atSubject.of, atSubject.child, {Group: "events.k8s.io", Version: "v1", Resource: "events"},
	}, childTypes...)
	at := metav1.DeletePropagationBackground
	return l.each(ctx, namespaces*len(types), func(ctx context.Context, i int) error {
		gvr := types[i/namespaces]
		err := l.metadata.Resource(gvr).Namespace(namespace(i)).DeleteCollection(ctx, metav1.DeleteOptions{
			PropagationPolicy: &at,
		}, metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %s: %w", gvr.Resource, err)
		}
		return nil
	})
}
