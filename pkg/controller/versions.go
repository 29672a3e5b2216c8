package controller

import "hash/maphash"

// Versions is a digest of the UIDs and resource versions of several objects, and of texts. A different
// digest means that an object or a text has changed. The digest depends on the order of the additions.
type Versions struct {
	hash    maphash.Hash
	unknown bool
}

// seed is the seed of all digests. A digest has no meaning in another process.
var seed = maphash.MakeSeed()

// NewVersions returns a Versions without additions.
func NewVersions() *Versions {
	v := &Versions{}
	v.hash.SetSeed(seed)
	return v
}

// Add adds the result of reading from a cache: an object, or nil for a missing object. An error, or an
// object without a version, makes the digest unknown.
func (v *Versions) Add(object Versioned, err error) {
	switch {
	case err != nil:
		v.unknown = true
	case object == nil:
		v.write("")
	case object.GetResourceVersion() == "":
		v.unknown = true
	default:
		v.write(string(object.GetUID()))
		v.write(object.GetResourceVersion())
	}
}

// AddWanted is Add for an object that must exist. A missing object makes the digest unknown. Otherwise
// a reconcile that started without the object, and found nothing to do because the object appeared
// meanwhile, would not be repeated after the object is deleted again.
func (v *Versions) AddWanted(object Versioned, err error) {
	if object == nil {
		v.unknown = true
	}
	v.Add(object, err)
}

// AddText adds a text, for something without a version, such as a desired state.
func (v *Versions) AddText(text []byte) { _, _ = v.hash.Write(text) }

func (v *Versions) write(part string) {
	_, _ = v.hash.WriteString(part) // never fails
	_ = v.hash.WriteByte(0)
}

// Sum returns the digest of all additions. known is false if an addition made the digest unknown.
func (v *Versions) Sum() (sum uint64, known bool) { return v.hash.Sum64(), !v.unknown }
