package externaldatabase

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

// missingRecheck is how often an ExternalDatabase is reconciled while its Secret is missing, in case
// the event of its creation is lost.
const missingRecheck = 5 * time.Second

// connections reads connection Secrets, and remembers the settings in the last version of each, within
// maxKept.
type connections struct {
	known   func(namespace, name string) (controller.Versioned, error) // from the caches
	secrets coreclient.SecretsGetter

	mu   sync.Mutex
	read map[controller.Key]connection
}

// connection is the content of a version of a Secret. err says why the content is invalid, or is nil.
type connection struct {
	version  string
	settings postgresql.Settings
	err      error
}

func newConnections(
	known func(namespace, name string) (controller.Versioned, error), secrets coreclient.SecretsGetter,
) *connections {
	return &connections{known: known, secrets: secrets, read: map[controller.Key]connection{}}
}

// get returns the settings in a Secret. It returns a WaitFor error while the Secret is missing, and a
// Stalled error if the Secret is invalid.
func (c *connections) get(ctx context.Context, key controller.Key) (postgresql.Settings, error) {
	known, err := c.known(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return postgresql.Settings{}, missing(key.Name)
	}
	if err != nil {
		return postgresql.Settings{}, fmt.Errorf("reading Secret %s from the caches: %w", key, err)
	}
	if last, ok := c.last(key); ok && last.version == versionOf(known) {
		return last.settings, last.err
	}
	secret, err := c.secrets.Secrets(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return postgresql.Settings{}, missing(key.Name)
	}
	if err != nil {
		return postgresql.Settings{}, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	read := connection{version: versionOf(secret)}
	if read.settings, err = credentials.Parse(secret.Data); err != nil {
		read.err = controller.Stalled(messageInvalidSecret.Error(key.Name, err), 0)
	}
	c.keep(key, read)
	return read.settings, read.err
}

// maxKept limits the certificates that are kept for the Secrets of a namespace, in bytes. Each reconcile
// reads a Secret that is not kept, and Finalize cannot use such a Secret after its deletion.
const maxKept = 1 << 20

// keep remembers the content of a Secret. If the certificates of its namespace exceed maxKept, keep forgets
// other Secrets of the namespace.
func (c *connections) keep(key controller.Key, read connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read[key] = read
	size := len(read.settings.CA)
	for other, said := range c.read {
		more := len(said.settings.CA)
		if other == key || other.Namespace != key.Namespace || more == 0 {
			continue
		}
		if size+more > maxKept {
			delete(c.read, other)
		} else {
			size += more
		}
	}
}

// last returns the content of a Secret as it was last read, and false if it is not kept.
func (c *connections) last(key controller.Key) (connection, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.read[key]
	return last, ok
}

// forgetful returns the handler that forgets a Secret once no ExternalDatabase refers to it. Until then,
// Finalize may need the Secret.
func (c *connections) forgetful(referrers references.Index) cache.ResourceEventHandler {
	forget := func(secret controller.Key) {
		if len(referrers.Find(secret.String())) > 0 {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.read, secret)
	}
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(oldObj, newObj any) {
			before, ok1 := oldObj.(*v1alpha1.ExternalDatabase)
			now, ok2 := newObj.(*v1alpha1.ExternalDatabase)
			if ok1 && ok2 && connectionKey(before) != connectionKey(now) {
				forget(connectionKey(before))
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if db, ok := obj.(*v1alpha1.ExternalDatabase); ok {
				forget(connectionKey(db))
			}
		},
	}
}

func versionOf(object controller.Versioned) string {
	return string(object.GetUID()) + "/" + object.GetResourceVersion()
}

func missing(name string) error {
	return messageMissing.Wait(missingRecheck, name)
}
