package app

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// references are the Secrets and ConfigMaps of all namespaces, known by metadata
// alone.
type references struct {
	core      coreclient.CoreV1Interface
	informers map[string]cache.SharedIndexInformer // by kind
}

func newReferences(core coreclient.CoreV1Interface, factory metadatainformer.SharedInformerFactory) *references {
	return &references{core: core, informers: map[string]cache.SharedIndexInformer{
		kindSecret:    factory.ForResource(corev1.SchemeGroupVersion.WithResource("secrets")).Informer(),
		kindConfigMap: factory.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps")).Informer(),
	}}
}

// trim keeps of each what tells one version from another.
func (r *references) trim() error {
	for kind, informer := range r.informers {
		if err := informer.SetTransform(identityOf); err != nil {
			return fmt.Errorf("trimming the cache of %ss: %w", kind, err)
		}
	}
	return nil
}

func identityOf(obj any) (any, error) {
	known, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: known.Namespace, Name: known.Name, UID: known.UID, ResourceVersion: known.ResourceVersion,
	}}, nil
}

// known is the metadata of one, from the cache.
func (r *references) known(ref reference, namespace string) (metav1.Object, error) {
	resource := schema.GroupResource{Resource: "secrets"}
	if ref.kind == kindConfigMap {
		resource.Resource = "configmaps"
	}
	object, err := cache.NewGenericLister(r.informers[ref.kind].GetIndexer(), resource).ByNamespace(namespace).Get(ref.name)
	if err != nil {
		return nil, err
	}
	known, ok := object.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("the cache of %ss holds a %T", ref.kind, object)
	}
	return known, nil
}

// read reads one from the API server. Nothing of its data is kept but a digest.
func (r *references) read(ctx context.Context, ref reference, namespace string) (input, error) {
	if ref.kind == kindConfigMap {
		c, err := r.core.ConfigMaps(namespace).Get(ctx, ref.name, metav1.GetOptions{})
		if err != nil {
			return input{}, err
		}
		return input{versionOf(c), digestOfConfigMap(c)}, nil
	}
	s, err := r.core.Secrets(namespace).Get(ctx, ref.name, metav1.GetOptions{})
	if err != nil {
		return input{}, err
	}
	return input{versionOf(s), digestOf(s, s.Data)}, nil
}
