package packed

import (
	"context"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/cache/budget"
)

// Options say which objects the informers of a factory hold.
type Options struct {
	// Namespace is the namespace of the objects. Empty means all namespaces.
	Namespace string
	// Tweak selects objects: it changes the options of each list and watch. Nil changes nothing.
	Tweak internalinterfaces.TweakListOptionsFunc
	// NewInformer, if it is set, creates the informers, for example of a part of the objects.
	NewInformer NewInformer
	// Packers may be shared by several factories. Nil means that this factory has its own.
	Packers *Packers
	// Limit and Groups are the arguments of Packers.Transform.
	Limit  *budget.Budget
	Groups []string
}

// NewInformer creates an informer for the type of object, which is in scheme. tweak is the same as in Options.
type NewInformer func(
	client rest.Interface, scheme *runtime.Scheme, object runtime.Object, namespace string,
	tweak func(*metav1.ListOptions),
) cache.SharedIndexInformer

// NewFactory returns informers that pack objects with o.Packers. Stores and listers return unpacked objects.
//
// The events of these informers have packed objects. Handlers can read the metadata of a packed object with
// meta.Accessor.
func NewFactory(client kubernetes.Interface, o Options) informers.SharedInformerFactory {
	if o.Packers == nil {
		o.Packers = &Packers{}
	}
	return &factory{
		inner: informers.NewSharedInformerFactoryWithOptions(client, 0,
			informers.WithNamespace(o.Namespace), informers.WithTweakListOptions(o.Tweak),
			informers.WithTransform(o.Packers.Transform(o.Limit, o.Groups...))),
		namespace:   o.Namespace,
		tweak:       o.Tweak,
		newInformer: o.NewInformer,
	}
}

// factory does not embed informers.SharedInformerFactory, because the embedded methods would return
// informers that do not unpack objects.
type factory struct {
	inner       informers.SharedInformerFactory
	namespace   string
	tweak       internalinterfaces.TweakListOptionsFunc
	newInformer NewInformer
}

// InformerFor implements informers.SharedInformerFactory. The methods for API groups create their informers
// with it.
func (f *factory) InformerFor(
	obj runtime.Object, newFunc internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	if f.newInformer != nil {
		newFunc = func(client kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
			return f.newInformer(client.CoreV1().RESTClient(), scheme.Scheme, obj, f.namespace, f.tweak)
		}
	}
	return informer{f.inner.InformerFor(obj, newFunc)}
}

// ForResource implements informers.SharedInformerFactory. It returns an error if Options.NewInformer is set.
func (f *factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if f.newInformer != nil {
		return nil, fmt.Errorf("creating an informer for %s: these informers are available by type only", resource)
	}
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
