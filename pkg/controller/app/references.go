package app

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata/metadatainformer"

	"windlass.dev/windlass/pkg/controller/internal/references"
)

// named are the Secrets and ConfigMaps of all namespaces, known by metadata alone.
type named struct {
	core coreclient.CoreV1Interface
	of   map[string]references.Known // by kind
}

func newNamed(core coreclient.CoreV1Interface, factory metadatainformer.SharedInformerFactory) (*named, error) {
	n := &named{core: core, of: map[string]references.Known{}}
	for kind, resource := range map[string]string{kindSecret: "secrets", kindConfigMap: "configmaps"} {
		known, err := references.New(factory, corev1.SchemeGroupVersion.WithResource(resource))
		if err != nil {
			return nil, err
		}
		n.of[kind] = known
	}
	return n, nil
}

// known is the metadata of one, from the cache.
func (n *named) known(ref reference, namespace string) (references.Object, error) {
	return n.of[ref.kind].Get(namespace, ref.name)
}

// read reads one from the API server. Nothing of its data is kept but a digest.
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
