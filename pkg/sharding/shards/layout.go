package shards

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/sharding"
)

// Layout divides all namespaces into shards.
type Layout struct {
	// Version increases with each change of the layout.
	Version int64
	// Cuts are the hashes at which the second and each later shard begins, in ascending order. The first shard begins
	// at 0, and the last shard ends at 2^64. Without cuts there are no shards: the leader works on all namespaces.
	Cuts []uint64
	// Weights has the number of objects in each shard, as the leader counted them last. It is empty if these numbers are
	// not known.
	Weights []int
}

// Shards returns the number of shards, which is 0 or at least 2.
func (l Layout) Shards() int {
	if len(l.Cuts) == 0 {
		return 0
	}
	return len(l.Cuts) + 1
}

// ID identifies the layout. Layouts with different cuts have different IDs, even if they have the same version, which
// is possible after somebody has changed or deleted the stored layout.
func (l Layout) ID() string {
	sum := fnv.New64a()
	for _, cut := range l.Cuts {
		_, _ = sum.Write(binary.BigEndian.AppendUint64(nil, cut))
	}
	return fmt.Sprintf("%d-%016x", l.Version, sum.Sum64())
}

// versionIn returns the version in an ID, or 0 if it has none.
func versionIn(id string) int64 {
	text, _, _ := strings.Cut(id, "-")
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version < 0 || version > MaxVersion {
		return 0
	}
	return version
}

// ShardOf returns the shard of a namespace.
func (l Layout) ShardOf(namespace string) int {
	shard, begins := slices.BinarySearch(l.Cuts, hashOf(namespace))
	if begins {
		return shard + 1
	}
	return shard
}

// weight returns the number of objects in a shard, or 0 if it is not known.
func (l Layout) weight(shard int) int {
	if shard >= len(l.Weights) {
		return 0
	}
	return l.Weights[shard]
}

// Selector returns the selector of the objects in a shard, for ListOptions.ShardSelector.
func (l Layout) Selector(shard int) sharding.Selector {
	of := sharding.ShardRangeRequirement{Key: "object.metadata.namespace", Start: bound(0), End: "0x10000000000000000"}
	if shard > 0 {
		of.Start = bound(l.Cuts[shard-1])
	}
	if shard < len(l.Cuts) {
		of.End = bound(l.Cuts[shard])
	}
	return sharding.NewSelector(of)
}

// bound returns a hash in the form that a selector requires.
func bound(hash uint64) string { return fmt.Sprintf("0x%016x", hash) }

// hashOf returns the hash of a namespace that the API server compares with the bounds of a selector.
func hashOf(namespace string) uint64 {
	hash, _ := strconv.ParseUint(sharding.HashField(namespace), 16, 64) // HashField returns 16 hexadecimal digits
	return hash
}

// Parse returns the layout with a version and with the cuts in text, which Text has written. It returns an error if a
// line is not a number, or if the cuts do not ascend.
func Parse(version int64, text []string) (Layout, error) {
	l := Layout{Version: version}
	for _, line := range text {
		cut, err := strconv.ParseUint(line, 0, 64)
		if err != nil {
			return Layout{}, fmt.Errorf("reading the cut %q of layout %d: %w", line, version, err)
		}
		if cut == 0 || len(l.Cuts) > 0 && cut <= l.Cuts[len(l.Cuts)-1] {
			return Layout{}, fmt.Errorf("the cut %q of layout %d is not greater than the one before", line, version)
		}
		l.Cuts = append(l.Cuts, cut)
	}
	return l, nil
}

// Text returns the cuts in the form that Parse reads.
func (l Layout) Text() (text []string) {
	for _, cut := range l.Cuts {
		text = append(text, bound(cut))
	}
	return text
}
