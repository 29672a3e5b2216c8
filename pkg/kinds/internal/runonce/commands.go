// Package runonce runs a command in a Pod, and counts each attempt once, whatever happens to the operator, to the Pod
// or to its node. A Pod has a finalizer until the status of its owner says how the command ended, and all Pods of an
// owner have the same name, so that the API server rejects a second Pod.
package runonce

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Commands manages the Pods that run the commands of the objects of a kind. Each object owns its Pod.
type Commands struct {
	// Informer has the cache of Pods.
	Informer cache.SharedIndexInformer
	Tracker  *controller.Tracker // the caller of New sets it

	kind, container, suffix string
	client                  coreclient.PodsGetter
	cache                   children.Cache[*corev1.Pod]
	clock                   clock.PassiveClock
	// owner reads an object of the kind from the API server.
	owner func(ctx context.Context, key controller.Key) (metav1.Object, error)
	// rejections remembers the rejected creations of Pods.
	rejections *controller.Rejections[any]
	// hidden has the keys of the objects whose Pods are hidden: see isHidden.
	hidden sync.Map
}

// New returns the Commands of a kind. container is the name of the container that runs the command. The name of a Pod
// is the name of its owner followed by suffix. owners returns the client of the kind for a namespace.
func New[T controller.Object](
	c kinds.Cluster, r controller.Runtime, kind, container, suffix string,
	owners func(namespace string) controller.Client[T],
) (*Commands, error) {
	watched, err := pods.Watched(c.Owned)
	if err != nil {
		return nil, err
	}
	informer := watched.Informer()
	return &Commands{
		Informer: informer, kind: kind, container: container, suffix: suffix,
		client: c.Kube.CoreV1(), cache: children.CacheOf[*corev1.Pod](informer.GetIndexer()),
		clock: r.Clock, rejections: controller.NewRejections[any](r.Clock),
		owner: func(ctx context.Context, key controller.Key) (metav1.Object, error) {
			return owners(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		},
	}, nil
}

// State is the observed state of the Pod of an owner.
type State struct {
	// Pod is nil if no Pod has the name.
	Pod *corev1.Pod
	// owner is the key of the owner.
	owner controller.Key
	// Own reports whether the owner controls the Pod.
	Own bool
	// Unwatched reports whether changes of the Pod cause no reconcile of the owner: the cache lacks the Pod, or
	// somebody has removed its owner reference.
	Unwatched bool
	Outcome
}

// Recheck returns the delay until the next reconcile of the owner: requeueAfter, but at most unwatchedRecheck if the
// Pod is Unwatched. requeueAfter is the time after which the owner has something to do, or 0.
func (s State) Recheck(requeueAfter time.Duration) time.Duration {
	if s.Unwatched {
		return pods.Earliest(requeueAfter, unwatchedRecheck)
	}
	return requeueAfter
}

// unwatchedRecheck is how often the owner of an Unwatched Pod is reconciled.
const unwatchedRecheck = 30 * time.Second

// Observe returns the state of the Pod of owner. It reads a Pod that the cache excludes from the API server, and
// other Pods from the cache.
func (c *Commands) Observe(ctx context.Context, owner metav1.Object) (State, error) {
	pod, err := c.find(ctx, cache.MetaObjectToName(owner))
	return c.stateOf(owner, pod, c.isHidden(cache.MetaObjectToName(owner))), err
}

// Live returns the state of the Pod of owner, read from the API server. Call it if the cache may be outdated, or
// if somebody may have removed the label by which the cache selects Pods.
func (c *Commands) Live(ctx context.Context, owner metav1.Object) (State, error) {
	pod, err := c.read(ctx, cache.MetaObjectToName(owner))
	return c.stateOf(owner, pod, true), err
}

func (c *Commands) stateOf(owner metav1.Object, pod *corev1.Pod, uncached bool) State {
	if pod == nil {
		return State{}
	}
	own := metav1.IsControlledBy(pod, owner)
	return State{pod, cache.MetaObjectToName(owner), own, uncached || !own, outcomeOf(pod, c.container, c.clock.Now())}
}

// find returns the Pod of the object with a key, or nil: see Observe.
func (c *Commands) find(ctx context.Context, key controller.Key) (*corev1.Pod, error) {
	pod, err := c.cache.Get(key.Namespace, key.Name+c.suffix)
	if !apierrors.IsNotFound(err) {
		return pod, err
	}
	if c.isHidden(key) {
		return c.read(ctx, key)
	}
	return nil, nil
}

// read reads the Pod of the object with a key from the API server. It returns nil if there is none.
func (c *Commands) read(ctx context.Context, key controller.Key) (*corev1.Pod, error) {
	pod, err := c.client.Pods(key.Namespace).Get(ctx, key.Name+c.suffix, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		c.hidden.Delete(key)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Pod %s%s: %w", key, c.suffix, err)
	}
	return pod, nil
}

// isHidden reports whether the Pod of the object with a key is hidden: the Pod lacks the label by which the cache
// selects Pods, and something in the cluster, for example an admission policy, does not let Relabel restore the label.
// The changes of a hidden Pod cause no events.
func (c *Commands) isHidden(key controller.Key) bool {
	_, hidden := c.hidden.Load(key)
	return hidden
}
