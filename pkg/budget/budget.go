// Package budget bounds how much memory caches take for the objects of one namespace. Anyone
// who may edit a namespace decides how large its objects are, and every replica of the
// operator caches them.
package budget

import (
	"runtime"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Limits of cached objects, in bytes. docs/security.md lists them.
const (
	// Object is how large an object may be, as JSON without its managed fields.
	Object = 1 << 20
	// Owned is how large an object of a built-in type may be: one that is made for an object
	// holds what that says, and a record of it.
	Owned = 1 << 20
	// Namespace is how large all objects of a namespace may be that are not Small.
	Namespace = 8 << 20
	// Small is how large an object may be that is not counted: there are many such.
	Small = 8 << 10
)

// Budget counts what caches hold of each namespace. An object counts as long as it is in
// memory: nobody has to say that it is gone. The zero value is ready to use.
type Budget struct {
	mu   sync.Mutex
	last uint64
	used map[string]*used
}

// used is what a namespace uses.
type used struct {
	total   int
	objects map[types.UID]charge
}

// charge is what the newest version of an object takes.
type charge struct {
	size   int
	number uint64
}

// released says which charge goes with an object.
type released struct {
	budget    *Budget
	namespace string
	uid       types.UID
	number    uint64
}

// Charge counts an object for a namespace until holder is garbage, in place of another version
// of it. It is false, and the object does not count, if it does not fit.
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

// Fits reports whether Charge would count a version of an object now. A nil Budget has no limit.
func (b *Budget) Fits(namespace string, uid types.UID, size int) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used[namespace].with(uid, size) <= Namespace
}

// with returns what a namespace uses once a version of an object has been charged.
func (u *used) with(uid types.UID, size int) int {
	if u == nil {
		return size
	}
	return u.total - u.objects[uid].size + size
}

// release forgets an object, unless a newer version of it counts.
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
