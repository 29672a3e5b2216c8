package app

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds"
)

// named finds and reads the Secrets and ConfigMaps that Apps refer to. The caches hold only the metadata of
// objects that the operator did not create.
type named struct {
	core coreclient.CoreV1Interface
	of   map[string]references.Named // by kind
	apps references.Index
}

// referencesIndex is the index of Apps by the Secrets and ConfigMaps that they refer to.
const referencesIndex = "references"

func newNamed(c kinds.Cluster, apps cache.SharedIndexInformer) (*named, error) {
	index, err := references.NewIndex(apps, referencesIndex, referencesIn)
	if err != nil {
		return nil, err
	}
	secrets, err := references.NewNamed(c.Others, corev1.SchemeGroupVersion.WithResource("secrets"), c.Secrets().Informer)
	if err != nil {
		return nil, err
	}
	configMaps, err := references.NewNamed(c.Others, corev1.SchemeGroupVersion.WithResource("configmaps"), c.ConfigMaps().Informer)
	if err != nil {
		return nil, err
	}
	return &named{c.Kube.CoreV1(), map[string]references.Named{kindSecret: secrets, kindConfigMap: configMaps}, index}, nil
}

// Watches implements children.Reference.
func (n *named) Watches() (all []controller.Reference) {
	for kind, known := range n.of {
		referrers := func(obj metav1.Object) []controller.Key {
			return n.apps.Find(indexed(reference{kind: kind, name: obj.GetName()}, obj.GetNamespace()))
		}
		for _, informer := range known.Informers() {
			all = append(all, controller.Reference{Informer: informer, Referrers: referrers})
		}
	}
	return all
}

// referencesIn returns the index keys of the Secrets and ConfigMaps that an App refers to.
func referencesIn(app *v1alpha1.App) (keys []string) {
	for _, ref := range referencesOf(app) {
		keys = append(keys, indexed(ref, app.Namespace))
	}
	return keys
}

func indexed(ref reference, namespace string) string { return namespace + "/" + ref.String() }

// known returns the version of a Secret or ConfigMap in the caches.
func (n *named) known(ref reference, namespace string) (controller.Versioned, error) {
	return n.of[ref.kind].Get(namespace, ref.name)
}

// read reads a Secret or ConfigMap from the API server, and returns its version and digest.
func (n *named) read(ctx context.Context, ref reference, namespace string) (input, error) {
	if ref.kind == kindConfigMap {
		c, err := n.core.ConfigMaps(namespace).Get(ctx, ref.name, metav1.GetOptions{})
		if err != nil {
			return input{}, err
		}
		return input{versionOf(c), digestOfConfigMap(c)}, nil
	}
	s, err := n.core.Secrets(namespace).Get(ctx, ref.name, metav1.GetOptions{})
	if err != nil {
		return input{}, err
	}
	return input{versionOf(s), digestOf(s, s.Data)}, nil
}

// prepare sets the URL and the selector in the status, and reads the inputs of the Pods. If a required
// object is missing, or the connection Secret belongs to another database, prepare sets p.waiting: the
// Deployment stays as it is, but the other children are applied. If the App has no Deployment of its own
// yet, prepare returns p.waiting, and no child is applied.
func (r *reconciler) prepare(ctx context.Context, p *scope) error {
	setAddress(p.app)
	p.inputs = inputs{}
	if hasConfig(p.app) {
		p.inputs[ownConfig] = input{Digest: digestOf(p.app, p.app.Spec.Config)}
	}
	var before inputs
	if d, err := r.deployments.Get(p.app.Namespace, p.app.Name); err == nil {
		p.before, before = d, inputsFrom(d.Annotations[inputsAnnotation])
	}
	present, missing, refs := map[reference]controller.Versioned{}, []string{}, referencesOf(p.app)
	for _, ref := range refs {
		switch known, err := r.known(ref, p.app.Namespace); {
		case err == nil:
			present[ref] = known
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("reading %s %s/%s from the caches: %w", ref.kind, p.app.Namespace, ref.name, err)
		case !ref.optional:
			missing = append(missing, ref.kind+" "+ref.name)
		}
	}
	if len(missing) > 0 {
		p.waiting = messageMissing.Wait(missingRecheck, strings.Join(missing, ", "))
	} else {
		p.waiting = r.databases.check(p.app, present, p.hasDeployment())
	}
	if p.waiting != nil {
		if !p.hasDeployment() {
			return p.waiting
		}
		return nil
	}
	for _, ref := range refs {
		in, there, err := r.inputOf(ctx, ref, p.app.Namespace, present[ref], before)
		if err != nil {
			return fmt.Errorf("reading %s %s/%s: %w", ref.kind, p.app.Namespace, ref.name, err)
		}
		if there {
			p.inputs[ref.String()] = in
		}
	}
	return r.findAutoscaler(ctx, p)
}

// inputOf returns the input of a reference. known is the cached version of the object, or nil, and before
// are the inputs in the annotation of the Deployment. there is false if the object does not exist.
//
// inputOf reads an object only if its version differs from the version in before. r.digests shares the
// result among Apps. If before has an input whose object is in no cache, inputOf reads the object from the
// API server: while the managed-by label of an object changes, neither cache may have the object, and the
// Pods must not be replaced. If the content is the same as in before, inputOf returns the version in
// before, so that a change of metadata costs no write.
func (r *reconciler) inputOf(ctx context.Context, ref reference, namespace string, known controller.Versioned, before inputs) (in input, there bool, err error) {
	last, had := before[ref.String()]
	if known == nil && !had {
		return input{}, false, nil
	}
	read := func(ctx context.Context) (input, error) { return r.read(ctx, ref, namespace) }
	if known == nil {
		in, err = read(ctx)
		if apierrors.IsNotFound(err) {
			return input{}, false, nil
		}
	} else {
		version := versionOf(known)
		if had && last.Version == version {
			return last, true, nil
		}
		in, err = r.digests.Of(ctx, known, read)
	}
	if err == nil && had && in.Digest == last.Digest {
		in = last
	}
	return in, err == nil, err
}
