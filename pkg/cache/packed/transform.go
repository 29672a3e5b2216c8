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
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/cache/budget"
)

// Whole is implemented by the types that can be packed, among them all built-in types.
type Whole interface {
	metav1.Object
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

const (
	// latest is the number of objects of a type that are also kept unpacked, because the reconcile that follows
	// an event usually reads the object of the event.
	latest = 16
	// largest is the size in bytes up to which an object is kept unpacked, or added to a dictionary.
	largest = 16 << 10
	// worth is the compression ratio below which an object may be added to a dictionary.
	worth = 3
)

// Packers has the dictionaries and the latest objects of each type. The caches of several shards share them to save
// memory. The zero Packers is ready to use, and is safe for concurrent use.
type Packers struct {
	byType sync.Map // packer by reflect.Type
}

// of returns the packer of the type of an object.
func (p *Packers) of(obj any) *packer {
	of := reflect.TypeOf(obj)
	known, ok := p.byType.Load(of)
	if !ok {
		known, _ = p.byType.LoadOrStore(of, &packer{})
	}
	return known.(*packer)
}

// Transform returns a transform for informers that packs objects, without their managed fields. It does not
// pack Secrets, because the dictionary would keep the data of deleted Secrets. It does not change objects
// that do not implement Whole. It drops the data of immutable ConfigMaps, which nothing can change.
//
// If the operator did not create an object, or if the object exceeds a limit, only its identity is cached (see
// Object.Unpack). groups are the API groups of the operator. An object counts as created by the operator if the API
// group of its controller is in groups. An object without a controller counts if the prefix of one of its annotations
// is in groups.
func (p *Packers) Transform(limit *budget.Budget, groups ...string) cache.TransformFunc {
	var transform cache.TransformFunc
	transform = func(obj any) (any, error) {
		whole, ok := obj.(Whole)
		if !ok {
			return obj, nil
		}
		whole.SetManagedFields(nil)
		whole.SetOwnerReferences(budget.Owners(whole.GetOwnerReferences()))
		if !isClaimed(whole, groups) {
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
		if config, ok := obj.(*corev1.ConfigMap); ok && ptr.Deref(config.Immutable, false) {
			config.Data, config.BinaryData = nil, nil
		}
		data, err := whole.Marshal()
		if err != nil {
			return obj, nil // cached unpacked, the object only takes more memory
		}
		if len(data) > budget.Owned {
			return exceeded(whole, &ExceededError{size: len(data)}), nil
		}
		o := p.of(obj).pack(whole, data)
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
	misses  uint // the number of objects that compressed badly
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
		// Extend the dictionary only at the 1st, 2nd, 4th, 8th … miss, because building a dictionary is
		// expensive.
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

// packing encodes the objects of one type with a dictionary.
type packing struct {
	of    reflect.Type
	known []byte
	dict  *s2.Dict // made from known; nil if known is empty
}

// learn returns a packing whose dictionary also has data. If the dictionary is full, data replaces the oldest
// content.
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
