package app

import (
	"context"
	"fmt"

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

// inputCache finds and reads the inputs of Apps. The caches hold only the metadata of inputs that the operator did not
// create.
type inputCache struct {
	core   coreclient.CoreV1Interface
	inputs map[string]references.Named // by kind
	apps   references.Index
	// memo has the results of get. It holds no data of Secrets, only digests, which are also in an annotation of the
	// Deployment.
	memo *references.Memo[content]
}

const (
	// inputIndex is the index of Apps by their inputs.
	inputIndex = "inputs"
	// maxContents limits how many contents an inputCache remembers. The limit is above the number of inputs in a large
	// cluster: beyond the limit, each reconcile of an App would read its inputs again.
	maxContents = 1 << 16
)

func newInputCache(c kinds.Cluster, apps cache.SharedIndexInformer) (*inputCache, error) {
	index, err := references.NewIndex(apps, inputIndex, inputKeys)
	if err != nil {
		return nil, err
	}
	core := corev1.SchemeGroupVersion
	secrets, err := references.NewNamed(c.Others, core.WithResource("secrets"), c.Secrets().Informer)
	if err != nil {
		return nil, err
	}
	configMaps, err := references.NewNamed(c.Others, core.WithResource("configmaps"), c.ConfigMaps().Informer)
	if err != nil {
		return nil, err
	}
	inputs := map[string]references.Named{kindSecret: secrets, kindConfigMap: configMaps}
	return &inputCache{c.Kube.CoreV1(), inputs, index, references.NewMemo[content](maxContents)}, nil
}

// inputKeys returns the keys of the inputs of an App in inputIndex.
func inputKeys(app *v1alpha1.App) (keys []string) {
	for _, in := range inputsOf(app) {
		keys = append(keys, indexKey(in.kind, app.Namespace, in.name))
	}
	return keys
}

// indexKey returns the key of an object in the indexes of Apps.
func indexKey(kind, namespace, name string) string { return namespace + "/" + kind + "/" + name }

// References returns the References to the Secrets and ConfigMaps.
func (c *inputCache) References() (all []controller.Reference) {
	for kind, named := range c.inputs {
		referrers := func(obj metav1.Object) []controller.Key {
			return c.apps.Find(indexKey(kind, obj.GetNamespace(), obj.GetName()))
		}
		for _, informer := range named.Informers() {
			all = append(all, controller.Reference{Informer: informer, Referrers: referrers})
		}
	}
	return all
}

// versions maps the key of each input (input.String) to its cached version. Inputs that do not exist are not in the
// map.
type versions map[string]controller.Versioned

// find returns the cached versions of the inputs of an App, and the required inputs that are missing.
func (c *inputCache) find(app *v1alpha1.App) (found versions, missing []input, err error) {
	found = versions{}
	for _, in := range inputsOf(app) {
		switch version, err := c.inputs[in.kind].Get(app.Namespace, in.name); {
		case err == nil:
			found[in.String()] = version
		case !apierrors.IsNotFound(err):
			return nil, nil, fmt.Errorf("reading %s %s/%s from the caches: %w", in.kind, app.Namespace, in.name, err)
		case !in.optional:
			missing = append(missing, in)
		}
	}
	return found, missing, nil
}

// read returns the contents of the inputs of an App that are not reloaded. found has the cached versions of the inputs,
// and last the contents in the annotation of the Deployment.
func (c *inputCache) read(ctx context.Context, app *v1alpha1.App, found versions, last contents) (contents, error) {
	all := contents{}
	for _, in := range inputsOf(app) {
		if in.reload {
			continue
		}
		key := in.String()
		now, err := c.contentOf(ctx, in, app.Namespace, found[key], last[key])
		if err != nil {
			return nil, fmt.Errorf("reading %s %s/%s: %w", in.kind, app.Namespace, in.name, err)
		}
		if now != (content{}) {
			all[key] = now
		}
	}
	return all, nil
}

// contentOf returns the content of an input, or the zero value if the input does not exist. version is its cached
// version, or nil. last is its last content, or the zero value.
//
// contentOf reads the input if its version has changed since last. It also reads an input that last has and no cache
// has: while the managed-by label of an object changes, neither cache may have the object, and this must not replace
// the Pods. If the digest is the same as in last, contentOf returns last with its version, so that a change of metadata
// costs no write.
func (c *inputCache) contentOf(
	ctx context.Context, in input, namespace string, version controller.Versioned, last content,
) (now content, err error) {
	get := func(ctx context.Context) (content, error) { return c.get(ctx, in, namespace) }
	switch {
	case version == nil && last == content{}:
		return last, nil
	case version == nil:
		if now, err = get(ctx); apierrors.IsNotFound(err) {
			return content{}, nil
		}
	case last.Version == versionOf(version):
		return last, nil
	default:
		now, err = c.memo.Of(ctx, version, get) // all Apps share the result
	}
	if err == nil && now.Digest == last.Digest {
		return last, nil
	}
	return now, err
}

// get reads an input from the API server, and returns its content.
func (c *inputCache) get(ctx context.Context, in input, namespace string) (content, error) {
	if in.kind == kindConfigMap {
		live, err := c.core.ConfigMaps(namespace).Get(ctx, in.name, metav1.GetOptions{})
		if err != nil {
			return content{}, err
		}
		return content{versionOf(live), digestOf(live, live.Data) + digestOf(live, live.BinaryData)}, nil
	}
	live, err := c.core.Secrets(namespace).Get(ctx, in.name, metav1.GetOptions{})
	if err != nil {
		return content{}, err
	}
	return content{versionOf(live), digestOf(live, live.Data)}, nil
}
