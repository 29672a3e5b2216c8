package controller

import (
	"hash/maphash"
)

// Versions tell one state of several objects from another, by their UIDs and resource
// versions. They depend on the order in which objects are added.
type Versions struct {
	hash    maphash.Hash
	unknown bool
}

// seed is that of all Versions, which are of no use to another process.
var seed = maphash.MakeSeed()

func newVersions() *Versions {
	v := &Versions{}
	v.hash.SetSeed(seed)
	return v
}

// Add adds what was read from a cache: an object, or nil for one that is not there. After an
// error, or an object without a version, nothing is known.
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

func (v *Versions) write(part string) {
	_, _ = v.hash.WriteString(part) // which never fails
	_ = v.hash.WriteByte(0)
}

// sum is a number for all that was added, if all of it has a version.
func (v *Versions) sum() (uint64, bool) { return v.hash.Sum64(), !v.unknown }
