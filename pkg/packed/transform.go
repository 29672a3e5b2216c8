package packed

import (
	"math/bits"
	"reflect"
	"slices"
	"sync"
	"weak"

	"github.com/klauspost/compress/s2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/budget"
)

// Whole is an object of a type that can be packed, as all built-in types can.
type Whole interface {
	metav1.Object
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

const (
	// latest is how many objects of a type are kept whole: a pass that an event leads to
	// reads what the event told of, most often at once.
	latest = 64
	// largest is how many bytes an object may have that is kept whole, or learned.
	largest = 16 << 10
	// worth is how many times smaller an object is to become.
	worth = 3
)

// Transform returns what packs objects for informers. Managed fields are left out. What
// cannot be packed stays as it is, and so do Secrets: the data of one that is gone would be
// kept to unpack others. Of an object that nobody here has made, and of one that exceeds a
// limit, the identity is left: see Object.Unpack.
func Transform(limit *budget.Budget) cache.TransformFunc {
	var packers sync.Map // by type
	var transform cache.TransformFunc
	transform = func(obj any) (any, error) {
		whole, ok := obj.(Whole)
		if !ok {
			return obj, nil
		}
		whole.SetManagedFields(nil)
		whole.SetOwnerReferences(budget.Owners(whole.GetOwnerReferences()))
		if !isClaimed(whole) {
			return identityOf(whole)
		}
		if secret, ok := obj.(*corev1.Secret); ok {
			if size := secret.Size(); size > budget.Owned {
				return exceeded(whole, &ExceededError{size: size}), nil
			} else if size > budget.Small && !budget.Charge(limit, secret, secret.Namespace, secret.UID, size) {
				return exceeded(whole, &ExceededError{size: size, limit: limit, transform: transform}), nil
			}
			return obj, nil
		}
		data, err := whole.Marshal()
		if err != nil {
			return obj, nil // which takes more memory, and nothing else
		}
		if len(data) > budget.Owned {
			return exceeded(whole, &ExceededError{size: len(data)}), nil
		}
		all, _ := packers.LoadOrStore(reflect.TypeOf(obj), &packer{})
		o := all.(*packer).pack(whole, data)
		if size := len(o.packed); size > budget.Small && !budget.Charge(limit, o, o.namespace, o.uid, size) {
			return exceeded(whole, &ExceededError{size: size, limit: limit, transform: transform}), nil
		}
		return o, nil
	}
	return transform
}

// packer packs the objects of one type.
type packer struct {
	mu      sync.Mutex
	packing *packing
	misses  uint // of objects that were not like those before
	buffer  []byte
	recent  [latest]weak.Pointer[Object]
	next    int
}

func (p *packer) pack(whole Whole, data []byte) *Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.packing == nil {
		p.packing = &packing{of: reflect.TypeOf(whole).Elem()}
	}
	o := newObject(whole)
	p.encode(data)
	if len(p.buffer)*worth > len(data) && len(data) <= largest {
		// Ever less often, so that what is like nothing else costs little.
		if p.misses++; bits.OnesCount(p.misses) == 1 {
			p.packing = p.packing.learn(data)
			p.encode(data)
		}
	}
	o.packed, o.packing = string(p.buffer), p.packing
	if len(data) > largest {
		p.buffer = nil
		return o
	}
	o.whole.Store(&whole)
	if before := p.recent[p.next].Value(); before != nil {
		before.whole.Store(nil)
	}
	p.recent[p.next] = weak.Make(o)
	p.next = (p.next + 1) % latest
	return o
}

func (p *packer) encode(data []byte) {
	if size := s2.MaxEncodedLen(len(data)); cap(p.buffer) < size {
		p.buffer = make([]byte, size)
	}
	p.buffer = p.packing.encode(p.buffer[:cap(p.buffer)], data)
}

// packing is how objects of one type are packed: as what they have beyond a dictionary.
type packing struct {
	of    reflect.Type
	known []byte
	dict  *s2.Dict // of what is known, or nil
}

// learn returns a packing for objects that are like data, or like those before.
func (p *packing) learn(data []byte) *packing {
	known := slices.Concat(p.known, data)
	known = known[max(0, len(known)-s2.MaxDictSize):]
	return &packing{of: p.of, known: known, dict: s2.MakeDict(known, nil)}
}

func (p *packing) encode(into, data []byte) []byte {
	if p.dict == nil {
		return s2.Encode(into, data)
	}
	return p.dict.Encode(into, data)
}

func (p *packing) unpack(packed string) (whole Whole, err error) {
	var data []byte
	if p.dict == nil {
		data, err = s2.Decode(nil, []byte(packed))
	} else {
		data, err = p.dict.Decode(nil, []byte(packed))
	}
	if err != nil {
		return nil, err
	}
	whole = reflect.New(p.of).Interface().(Whole)
	return whole, whole.Unmarshal(data)
}
