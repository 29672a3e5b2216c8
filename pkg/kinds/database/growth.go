package database

import (
	"context"
	"math"
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/kinds/internal/claims"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/postgresql"
)

const (
	// growAt is the percentage at which a volume grows.
	growAt = 80
	// growthDivisor divides the size of a volume: the volume grows by a fifth.
	growthDivisor = 5
	// automaticGrowth is the part of a Database under which reconciler.rejections has a rejected growth to a size between
	// spec.storage.size and spec.storage.maxSize.
	automaticGrowth = "growth"
)

// grow requests a fifth more for a volume that is at least four fifths full, up to spec.storage.maxSize. The claim
// keeps the larger request afterwards: see claims.KeepSize. If the API server rejects the growth, grow sets
// p.growthRejected.
func (r *reconciler) grow(ctx context.Context, p *scope) error {
	if !p.needsGrowth() {
		return nil
	}
	next, possible := nextSize(*claims.Size(p.claim), p.db.Spec.Storage.MaxSize)
	if !possible {
		return nil
	}
	if last, found := r.rejections.Recent(p.db.UID, automaticGrowth, next.String()); found {
		p.growthRejected = last.Err
		return nil
	}
	desired := desiredClaim(p.db)
	desired.Spec.Resources.Requests[corev1.ResourceStorage] = next
	claim, err := r.claim.Type().Update(ctx, p.Owner, desired)
	if isRejected(err) {
		p.growthRejected = r.rejections.Note(p.db.UID, automaticGrowth, next.String(), err, growthRetry, growthRetry).Err
		return nil
	}
	if err == nil {
		p.claim = claim
	}
	return err
}

// needsGrowth reports whether a volume is at least four fifths full. It returns false while the volume grows.
func (p *scope) needsGrowth() bool {
	used := p.reading.volume
	if size, full := fullVolume(p.db, p.pod); full {
		used = postgresql.VolumeUsage{Percent: isFull, Bytes: size}
	}
	return used.Percent >= growAt && growth(p.claim) == nil && compareSize(used.Bytes, p.claim) == 0
}

// compareSize compares the size of a file system with the size of its volume. It returns 0 if the file system fills the
// volume, and 1 if the file system is larger, because the volume is a directory on a larger disk. It returns -1 if the
// file system is smaller: usually, the file system was measured before the volume grew by a fifth. File systems keep
// less than an eighth for their own data.
func compareSize(bytes int64, claim *corev1.PersistentVolumeClaim) int {
	capacity, size := claim.Status.Capacity.Storage().AsApproximateFloat64(), float64(bytes)
	switch {
	case size < capacity*7/8:
		return -1
	case size > capacity*5/4:
		return 1
	}
	return 0
}

// fullMessage matches the message with which server.sh ends because the volume is full. Its group is the size in KiB.
var fullMessage = regexp.MustCompile(`^The volume is full: -?\d+ of (\d{1,18}) KiB are free\.`)

// fullVolume returns the size of the volume in bytes if PostgreSQL does not run because the volume is full. A container
// that runs again counts only while the condition Ready says so: it may be about to end again.
func fullVolume(db *v1alpha1.Database, pod *corev1.Pod) (size int64, full bool) {
	if pod == nil {
		return 0, false
	}
	status := pods.StatusOf(pod, containerName)
	ended := pods.LastEnd(status)
	ready := ptr.Deref(conditions.Find(db.Status.Conditions, conditions.Ready), metav1.Condition{})
	runs := status.State.Running != nil && ready.Reason != messageStoppedByVolume.Reason
	if ended == nil || status.Ready || runs {
		return 0, false
	}
	found := fullMessage.FindStringSubmatch(ended.Message)
	if found == nil {
		return 0, false
	}
	kibibytes, _ := strconv.ParseInt(found[1], 10, 64) // at most 18 digits
	return min(kibibytes, math.MaxInt64>>10) << 10, true
}

// nextSize returns the size to which a volume grows: a fifth more, rounded up to GiB, but at most limit. possible is
// false if the volume has this size already, or if there is no limit.
func nextSize(has resource.Quantity, limit *resource.Quantity) (next resource.Quantity, possible bool) {
	if limit == nil || has.Cmp(*limit) >= 0 {
		return has, false
	}
	const gibibyte = 1 << 30
	size := has.Value()
	if size < limit.Value()-size/growthDivisor-gibibyte { // so that the sum does not overflow
		size += size/growthDivisor + gibibyte - 1
		next = *resource.NewQuantity(size-size%gibibyte, resource.BinarySI)
		return next, true
	}
	return limit.DeepCopy(), true
}
