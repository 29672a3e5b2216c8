//go:build integration

package sharding

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/test/framework"
)

// pause is the time between two changes of a user. Shorter pauses would keep two CPUs busy, and changes would take long
// without any disturbance.
const pause = 4 * time.Second

// change is a change that a user has made, and the operator has carried out.
type change struct {
	made, carriedOut time.Time
}

// users change Apps. Each tenant has one user. The user changes an App, waits until the operator has changed the
// Deployment, pauses, and repeats this.
type users struct {
	*sharded
	stop func() // ends the users, and waits until their last changes are carried out

	mu       sync.Mutex
	replicas map[string]int32         // of the Deployment in a namespace
	changed  map[string]chan struct{} // has a value if the replicas in a namespace may have changed
	changes  []change
	latest   map[string]time.Time // the time at which the user of a namespace made the latest change that was carried out
}

// beginToUse starts the users.
func (s *sharded) beginToUse(t *testing.T) *users {
	t.Helper()
	u := &users{
		sharded: s, replicas: map[string]int32{}, changed: map[string]chan struct{}{}, latest: map[string]time.Time{},
	}
	for _, tenant := range s.tenants {
		u.changed[tenant] = make(chan struct{}, 1)
	}
	deployments := informers.NewSharedInformerFactory(s.Kube, 0).Apps().V1().Deployments().Informer()
	if _, err := deployments.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    u.observe,
		UpdateFunc: func(_, after any) { u.observe(after) },
	}); err != nil {
		t.Fatal(err)
	}
	go deployments.RunWithContext(t.Context())
	var working sync.WaitGroup
	ended := make(chan struct{})
	for _, tenant := range s.tenants {
		working.Go(func() { u.use(t, tenant, ended) })
	}
	u.stop = sync.OnceFunc(func() {
		close(ended)
		working.Wait()
	})
	t.Cleanup(u.stop)
	return u
}

// observe records the number of replicas of a Deployment.
func (u *users) observe(object any) {
	deployment, ok := object.(*appsv1.Deployment)
	if !ok || u.changed[deployment.Namespace] == nil {
		return
	}
	u.mu.Lock()
	u.replicas[deployment.Namespace] = *deployment.Spec.Replicas
	u.mu.Unlock()
	select {
	case u.changed[deployment.Namespace] <- struct{}{}:
	default:
	}
}

// use changes the App of a tenant until ended is closed.
func (u *users) use(t *testing.T, tenant string, ended <-chan struct{}) {
	for replicas := int32(2); ; replicas = replicas%5 + 1 {
		ctx, cancel := context.WithTimeout(context.Background(), framework.Patience)
		err := u.changeAndWait(ctx, tenant, replicas)
		cancel()
		if err != nil {
			t.Errorf("a change of the App in %s: %v", tenant, err)
			return
		}
		select {
		case <-time.After(pause):
		case <-ended:
			return
		}
	}
}

// changeAndWait sets the number of replicas of an App, and waits until its Deployment has this number.
func (u *users) changeAndWait(ctx context.Context, tenant string, replicas int32) error {
	c := change{made: time.Now()}
	_, err := u.Windlass.WindlassV1alpha1().Apps(tenant).Patch(ctx, "web", types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	for !u.has(tenant, replicas) {
		select {
		case <-u.changed[tenant]:
		case <-ctx.Done():
			return fmt.Errorf("it was not carried out: %w", ctx.Err())
		}
	}
	c.carriedOut = time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.changes, u.latest[tenant] = append(u.changes, c), c.made
	return nil
}

func (u *users) has(tenant string, replicas int32) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.replicas[tenant] == replicas
}

// catchUp waits until the operator has carried out, for each user, a change that the user made after the call. All
// earlier changes are then also carried out.
func (u *users) catchUp(t *testing.T) {
	t.Helper()
	now := time.Now()
	framework.Eventually(t, "the changes of all users to be carried out", func(context.Context) (bool, error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		return !slices.ContainsFunc(u.tenants, func(tenant string) bool { return u.latest[tenant].Before(now) }), nil
	})
}

// carriedOut returns all changes that were carried out.
func (u *users) carriedOut() []change {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.changes
}
