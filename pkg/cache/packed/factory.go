package packed

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/lifecycle"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/cache/budget"
)

// NewFactory returns informers that pack objects with Transform(limit, groups). They watch one namespace,
// or all namespaces if namespace is empty. tweak selects the objects. Stores and listers return unpacked
// objects.
//
// The events of these informers have packed objects. Handlers can read the metadata of a packed object with
// meta.Accessor.
func NewFactory(client kubernetes.Interface, namespace string, tweak internalinterfaces.TweakListOptionsFunc, limit *budget.Budget, groups ...string) informers.SharedInformerFactory {
	return &factory{
		inner: informers.NewSharedInformerFactoryWithOptions(client, 0,
			informers.WithNamespace(namespace), informers.WithTweakListOptions(tweak), informers.WithTransform(Transform(limit, groups...))),
		namespace: namespace,
		tweak:     tweak,
	}
}

// factory does not embed informers.SharedInformerFactory, because the embedded methods would return
// informers that do not unpack objects.
type factory struct {
	inner     informers.SharedInformerFactory
	namespace string
	tweak     internalinterfaces.TweakListOptionsFunc
}

// InformerFor implements informers.SharedInformerFactory. The methods for API groups create their informers
// with it.
func (f *factory) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return informer{f.inner.InformerFor(obj, newFunc)}
}

// ForResource implements informers.SharedInformerFactory.
func (f *factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	generic, err := f.inner.ForResource(resource)
	if err != nil {
		return nil, err
	}
	return genericInformer{informer{generic.Informer()}, resource.GroupResource()}, nil
}

func (f *factory) Start(stop <-chan struct{})           { f.inner.Start(stop) }
func (f *factory) StartWithContext(ctx context.Context) { f.inner.StartWithContext(ctx) }
func (f *factory) Shutdown()                            { f.inner.Shutdown() }
func (f *factory) InformerName() *cache.InformerName    { return f.inner.InformerName() }

func (f *factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.inner.WaitForCacheSync(stop)
}

func (f *factory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	return f.inner.WaitForCacheSyncWithContext(ctx)
}

func (f *factory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(f, f.namespace, f.tweak)
}

func (f *factory) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(f, f.namespace, f.tweak)
}

func (f *factory) Apps() apps.Interface {
	return apps.New(f, f.namespace, f.tweak)
}

func (f *factory) Autoscaling() autoscaling.Interface {
	return autoscaling.New(f, f.namespace, f.tweak)
}

func (f *factory) Batch() batch.Interface {
	return batch.New(f, f.namespace, f.tweak)
}

func (f *factory) Certificates() certificates.Interface {
	return certificates.New(f, f.namespace, f.tweak)
}

func (f *factory) Coordination() coordination.Interface {
	return coordination.New(f, f.namespace, f.tweak)
}

func (f *factory) Core() core.Interface {
	return core.New(f, f.namespace, f.tweak)
}

func (f *factory) Discovery() discovery.Interface {
	return discovery.New(f, f.namespace, f.tweak)
}

func (f *factory) Events() events.Interface {
	return events.New(f, f.namespace, f.tweak)
}

func (f *factory) Extensions() extensions.Interface {
	return extensions.New(f, f.namespace, f.tweak)
}

func (f *factory) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(f, f.namespace, f.tweak)
}

func (f *factory) Lifecycle() lifecycle.Interface {
	return lifecycle.New(f, f.namespace, f.tweak)
}

func (f *factory) Networking() networking.Interface {
	return networking.New(f, f.namespace, f.tweak)
}

func (f *factory) Node() node.Interface {
	return node.New(f, f.namespace, f.tweak)
}

func (f *factory) Policy() policy.Interface {
	return policy.New(f, f.namespace, f.tweak)
}

func (f *factory) Rbac() rbac.Interface {
	return rbac.New(f, f.namespace, f.tweak)
}

func (f *factory) Resource() resource.Interface {
	return resource.New(f, f.namespace, f.tweak)
}

func (f *factory) Scheduling() scheduling.Interface {
	return scheduling.New(f, f.namespace, f.tweak)
}

func (f *factory) Storage() storage.Interface {
	return storage.New(f, f.namespace, f.tweak)
}

func (f *factory) Storagemigration() storagemigration.Interface {
	return storagemigration.New(f, f.namespace, f.tweak)
}
