// Package webhooktest fakes the API server for tests of the webhook.
package webhooktest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// CRDName is the name of the CustomResourceDefinition that NewCRD returns.
const CRDName = "ats.cnat.programming-kubernetes.info"

var (
	secrets = corev1.SchemeGroupVersion.WithResource("secrets")
	crds    = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
)

// API has two fake clientsets that, unlike plain fake clientsets, set resource versions and check them as
// preconditions of writes.
type API struct {
	Kube *fake.Clientset
	CRD  *crdfake.Clientset

	t           testing.TB
	lock        sync.Mutex
	version     int
	writes      []runtime.Object
	beforeWrite func()
}

// NewAPI returns an API that holds the CustomResourceDefinition of NewCRD.
func NewAPI(t testing.TB) *API {
	a := &API{t: t, Kube: fake.NewSimpleClientset(), CRD: crdfake.NewSimpleClientset()}
	a.Kube.PrependReactor("*", "secrets", a.react(a.Kube.Tracker()))
	a.CRD.PrependReactor("*", "customresourcedefinitions", a.react(a.CRD.Tracker()))
	a.Put(NewCRD())
	return a
}

// NewCRD returns the CustomResourceDefinition of At as the manifest defines it, without a caBundle.
func NewCRD() *apiextensionsv1.CustomResourceDefinition {
	path, port := "/convert", int32(443)
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: CRDName, UID: "crd"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:    "cnat.programming-kubernetes.info",
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1"}, {Name: "v1alpha1"}},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ConversionReviewVersions: []string{"v1"},
					ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{
						Namespace: "windlass-system", Name: "windlass-webhook", Path: &path, Port: &port,
					}},
				},
			},
		},
	}
}

// Put creates or replaces an object as another client would, without a precondition.
func (a *API) Put(obj runtime.Object) {
	a.lock.Lock()
	defer a.lock.Unlock()
	tracker, resource := a.where(obj)
	obj = a.next(obj)
	namespace := accessor(obj).GetNamespace()
	if err := tracker.Update(resource, obj, namespace); apierrors.IsNotFound(err) {
		a.check(tracker.Create(resource, obj, namespace))
	}
}

// Delete deletes a Secret as another client would.
func (a *API) Delete(secret *corev1.Secret) {
	a.check(a.Kube.Tracker().Delete(secrets, secret.Namespace, secret.Name))
}

// Secret returns the current version of a Secret, or nil.
func (a *API) Secret(namespace, name string) *corev1.Secret {
	obj, err := a.Kube.Tracker().Get(secrets, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	a.check(err)
	return obj.(*corev1.Secret)
}

// Definition returns the current version of the CustomResourceDefinition.
func (a *API) Definition() *apiextensionsv1.CustomResourceDefinition {
	obj, err := a.CRD.Tracker().Get(crds, "", CRDName)
	a.check(err)
	return obj.(*apiextensionsv1.CustomResourceDefinition)
}

// Writes returns the result of each write through the clientsets, in order.
func (a *API) Writes() []runtime.Object {
	a.lock.Lock()
	defer a.lock.Unlock()
	return append([]runtime.Object(nil), a.writes...)
}

// Forget clears the recorded writes and requests.
func (a *API) Forget() {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.writes = nil
	a.Kube.ClearActions()
	a.CRD.ClearActions()
}

// BeforeNextWrite calls f right before the next write through the clientsets. f may use Put and Delete.
func (a *API) BeforeNextWrite(f func()) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.beforeWrite = f
}

// react returns a reaction that executes writes as an API server does.
func (a *API) react(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch action.GetVerb() {
		case "create", "update", "patch":
		default:
			return false, nil, nil
		}
		a.interfere()
		a.lock.Lock()
		defer a.lock.Unlock()
		obj, err := a.write(tracker, action)
		if err == nil {
			a.writes = append(a.writes, obj)
		}
		return true, obj, err
	}
}

func (a *API) interfere() {
	a.lock.Lock()
	f := a.beforeWrite
	a.beforeWrite = nil
	a.lock.Unlock()
	if f != nil {
		f()
	}
}

func (a *API) write(tracker clienttesting.ObjectTracker, action clienttesting.Action) (runtime.Object, error) {
	resource, namespace := action.GetResource(), action.GetNamespace()
	switch action := action.(type) {
	case clienttesting.UpdateAction:
		obj := action.GetObject()
		if action.GetVerb() == "create" {
			obj = a.next(obj)
			return obj, tracker.Create(resource, obj, namespace)
		}
		if err := current(tracker, resource, namespace, accessor(obj).GetName(),
			accessor(obj).GetResourceVersion()); err != nil {
			return nil, err
		}
		obj = a.next(obj)
		return obj, tracker.Update(resource, obj, namespace)
	case clienttesting.PatchActionImpl:
		var patch map[string]any
		if err := json.Unmarshal(action.Patch, &patch); err != nil {
			return nil, err
		}
		metadata, _ := patch["metadata"].(map[string]any)
		version, _ := metadata["resourceVersion"].(string)
		if err := current(tracker, resource, namespace, action.Name, version); err != nil {
			return nil, err
		}
		a.version++
		metadata["resourceVersion"] = strconv.Itoa(a.version)
		var err error
		if action.Patch, err = json.Marshal(patch); err != nil {
			return nil, err
		}
		_, obj, err := clienttesting.ObjectReaction(tracker)(action)
		return obj, err
	}
	return nil, fmt.Errorf("unexpected %T", action)
}

// current returns a conflict unless version is the newest resource version of the object.
func current(
	tracker clienttesting.ObjectTracker, resource schema.GroupVersionResource, namespace, name, version string,
) error {
	old, err := tracker.Get(resource, namespace, name)
	if err != nil {
		return err
	}
	if accessor(old).GetResourceVersion() != version {
		return apierrors.NewConflict(resource.GroupResource(), name,
			fmt.Errorf("the write has the outdated resource version %q", version))
	}
	return nil
}

// next returns a copy of obj with the next resource version.
func (a *API) next(obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	a.version++
	accessor(obj).SetResourceVersion(strconv.Itoa(a.version))
	return obj
}

func (a *API) where(obj runtime.Object) (clienttesting.ObjectTracker, schema.GroupVersionResource) {
	if _, ok := obj.(*corev1.Secret); ok {
		return a.Kube.Tracker(), secrets
	}
	return a.CRD.Tracker(), crds
}

func accessor(obj runtime.Object) metav1.Object { return obj.(metav1.Object) }

// check fails the test if err is not nil. Only a broken test causes such an error.
func (a *API) check(err error) {
	if err != nil {
		a.t.Errorf("the fake API server failed: %v", err)
	}
}
