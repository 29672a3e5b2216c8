// Package budget limits the memory that caches use for the objects of one namespace. Anyone who may
// edit a namespace decides how large its objects are, and every replica of the operator caches them.
package budget

import (
	"runtime"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Limits of cached objects, in bytes. docs/security.md lists them.
const (
	// Object is the largest size of an object, as JSON without managed fields.
	Object = 1 << 20
	// Owned is the largest size of an object that the operator created, as Protobuf without managed fields.
	Owned = 1 << 20
	// Namespace is the largest total size of the objects in a namespace. Objects up to Small do not count.
	Namespace = 8 << 20
	// Small is the size up to which an object does not count toward Namespace.
	Small = 8 << 10
)

// Budget counts the bytes that caches hold for each namespace. An object counts until Go's garbage
// collector frees it, so callers need not release it. The zero value is ready to use.
type Budget struct {
	mu   sync.Mutex
	last uint64
	used map[string]*used
}

// used has the charges of a namespace, and their total.
type used struct {
	total   int
	objects map[types.UID]charge
}

// charge is the size of the newest version of an object. number distinguishes successive charges of the object.
type charge struct {
	size   int
	number uint64
}

// released identifies a charge that ends when its holder is garbage-collected.
type released struct {
	budget    *Budget
	namespace string
	uid       types.UID
	number    uint64
}

// Charge counts an object with size bytes until holder is garbage-collected. It replaces the charge of
// the previous version of the object. If the budget has no room, it returns false and counts nothing.
func Charge[T any](b *Budget, holder *T, namespace string, uid types.UID, size int) bool {
	number, fits := b.charge(namespace, uid, size)
	if fits {
		runtime.AddCleanup(holder, released.release, released{b, namespace, uid, number})
	}
	return fits
}

func (b *Budget) charge(namespace string, uid types.UID, size int) (number uint64, fits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.used[namespace]
	total := u.with(uid, size)
	if total > Namespace {
		return 0, false
	}
	if u == nil {
		u = &used{objects: map[types.UID]charge{}}
	}
	b.last++
	u.total, u.objects[uid] = total, charge{size, b.last}
	if b.used == nil {
		b.used = map[string]*used{}
	}
	b.used[namespace] = u
	return b.last, true
}

// Fits reports whether Charge would return true. It returns true for a nil Budget.
func (b *Budget) Fits(namespace string, uid types.UID, size int) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used[namespace].with(uid, size) <= Namespace
}

// with returns the total after a new version of an object with size bytes is charged.
func (u *used) with(uid types.UID, size int) int {
	if u == nil {
		return size
	}
	return u.total - u.objects[uid].size + size
}

// release ends a charge, unless a newer version of the object was charged.
func (r released) release() {
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	u := r.budget.used[r.namespace]
	if u == nil || u.objects[r.uid].number != r.number {
		return
	}
	u.total -= u.objects[r.uid].size
	delete(u.objects, r.uid)
	if len(u.objects) == 0 {
		delete(r.budget.used, r.namespace)
	}
}
