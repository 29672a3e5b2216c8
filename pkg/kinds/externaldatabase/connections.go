package externaldatabase

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

// missingRecheck is how often an ExternalDatabase is reconciled while its Secret is missing, in case
// the event of its creation is lost.
const missingRecheck = 5 * time.Second

// connections reads connection Secrets. It remembers the settings in the last version of each Secret to which an
// ExternalDatabase refers, within the limit maxKept.
type connections struct {
	known   func(namespace, name string) (controller.Versioned, error) // reads a Secret from the caches
	secrets coreclient.SecretsGetter
	// referrers finds the ExternalDatabases that refer to a connection Secret.
	referrers references.Index

	mu   sync.Mutex
	read map[controller.Key]connection
}

// connection is the content of a version of a Secret. err says why the content is invalid, or is nil.
type connection struct {
	version  string
	settings postgresql.Settings
	err      error
}

// get returns the settings in a Secret. It returns a WaitFor error while the Secret is missing, and a
// Stalled error if the Secret is invalid.
func (c *connections) get(ctx context.Context, key controller.Key) (postgresql.Settings, error) {
	known, err := c.known(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return postgresql.Settings{}, messageMissing.Wait(missingRecheck, key.Name)
	}
	if err != nil {
		return postgresql.Settings{}, fmt.Errorf("reading Secret %s from the caches: %w", key, err)
	}
	if last, ok := c.last(key); ok && last.version == versionOf(known) {
		return last.settings, last.err
	}
	secret, err := c.secrets.Secrets(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return postgresql.Settings{}, messageMissing.Wait(missingRecheck, key.Name)
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

// maxKept limits the size of the certificates that connections remembers for the Secrets of a namespace, in bytes. If a
// Secret is not remembered, each reconcile reads it from the API server, and Finalize cannot use it after its deletion.
const maxKept = 1 << 20

// keep remembers the content of a Secret. It forgets the Secrets to which no ExternalDatabase refers, because no
// Finalize needs them any more. If the certificates of the namespace exceed maxKept, keep forgets other Secrets of the
// namespace.
func (c *connections) keep(key controller.Key, read connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read[key] = read
	size := len(read.settings.CA)
	for other, said := range c.read {
		more := len(said.settings.CA)
		switch {
		case other == key:
		case len(c.referrers.Find(other.String())) == 0:
			delete(c.read, other)
		case other.Namespace != key.Namespace || more == 0:
		case size+more > maxKept:
			delete(c.read, other)
		default:
			size += more
		}
	}
}

// last returns the content of a Secret as it was last read. The second result is false if no content is remembered.
func (c *connections) last(key controller.Key) (connection, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.read[key]
	return last, ok
}

func versionOf(object controller.Versioned) string {
	return string(object.GetUID()) + "/" + object.GetResourceVersion()
}
