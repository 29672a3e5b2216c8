package controller

import "hash/maphash"

// Versions tell one state of several objects from another, by their UIDs and resource
// versions, and one text from another. They depend on the order in which all is added.
type Versions struct {
	hash    maphash.Hash
	unknown bool
}

// seed is that of all Versions, which are of no use to another process.
var seed = maphash.MakeSeed()

// NewVersions returns Versions of nothing yet.
func NewVersions() *Versions {
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

// AddWanted is Add for what has to be there. If it is not, nothing is known: its absence has
// no version, so that it may have come, have been found as it should be, and have gone
// again, and all would look as before.
func (v *Versions) AddWanted(object Versioned, err error) {
	if object == nil {
		v.unknown = true
	}
	v.Add(object, err)
}

// AddText adds what has no version, such as what is wanted.
func (v *Versions) AddText(text []byte) { _, _ = v.hash.Write(text) }

func (v *Versions) write(part string) {
	_, _ = v.hash.WriteString(part) // which never fails
	_ = v.hash.WriteByte(0)
}

// Sum is a number for all that was added; known is false if any of it has no version.
func (v *Versions) Sum() (sum uint64, known bool) { return v.hash.Sum64(), !v.unknown }
