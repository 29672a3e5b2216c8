package database

import (
	"context"
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/claims"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/postgresql"
)

// The script in the Pod measures how full the volume is: see volume.sh. The operator reads the result when it connects
// to the server, because the metrics of the kubelet need permissions for nodes.

const (
	// watchEvery is how often the operator reads how full a volume is that can grow or that is at least four fifths full.
	watchEvery = 30 * time.Second
	// failedFactor is how many times longer the operator waits after it has failed to read this twice.
	failedFactor = 10
	// growAt is the percentage of a volume at which the volume grows.
	growAt = 80
	// nearlyFull is the percentage of a volume at which the status says so although the volume is growing.
	nearlyFull = 90
	// growthPart is the part of the size by which a volume grows: a fifth.
	growthPart = 5
)

// watch is what the operator knows about how full a volume is.
type watch struct {
	// at is when the operator last tried to read it, and every is how long the operator waits then. every is 0 if the
	// operator does not read it.
	at    time.Time
	every time.Duration
	// volume is the zero value if the operator does not know it.
	volume postgresql.VolumeUsage
	// failures is the number of consecutive failures to read it.
	failures int
	// unreachable is true if the operator cannot read it.
	unreachable bool
}

// watchVolume sets p.watch. It reads from the server how full the volume is if this is due. A failure changes
// only p.watch.
func (r *reconciler) watchVolume(ctx context.Context, p *scope) {
	now := r.clock.Now()
	known, found := r.watchOf(p.db)
	switch {
	case !found && !isWatched(p.db):
		r.noteWatch(p, watch{every: resync}) // so that a new process does not connect to all servers at once
	case found && known.dueIn(now) > 0:
		p.watch = known
	default:
		seen, err := r.lookAt(ctx, p)
		r.noteVolume(p, seen, err)
	}
}

// isWatched reports whether the operator often reads how full the volume of a Database is.
func isWatched(db *v1alpha1.Database) bool {
	return db.Spec.Storage.MaxSize != nil || usedPercent(db) >= growAt
}

// usedPercent returns the percentage in the status, or 0.
func usedPercent(db *v1alpha1.Database) int32 {
	if db.Status.Server == nil {
		return 0
	}
	return db.Status.Server.VolumeUsedPercent
}

// noteVolume sets p.watch and the status from what lookAt returned.
func (r *reconciler) noteVolume(p *scope, seen postgresql.ServerSettings, err error) {
	known, _ := r.watchOf(p.db)
	w := watch{volume: seen.Volume}
	if err != nil || seen.Volume == (postgresql.VolumeUsage{}) {
		w = watch{failures: known.failures + 1, unreachable: known.failures > 0}
	} else if p.db.Status.Server != nil {
		p.db.Status.Server.VolumeUsedPercent = seen.Volume.Percent
	}
	w.every = resync
	if isWatched(p.db) {
		w.every = watchEvery
	}
	if w.unreachable {
		w.every *= failedFactor
	}
	r.noteWatch(p, w)
}

func (r *reconciler) watchOf(db *v1alpha1.Database) (w watch, found bool) {
	known, found := r.watches.Get(db.UID)
	if !found {
		return w, false
	}
	w, found = known.(watch)
	return w, found
}

// noteWatch sets p.watch, and remembers it until a few minutes after the operator reads again.
func (r *reconciler) noteWatch(p *scope, w watch) {
	w.at = r.clock.Now()
	p.watch = w
	r.watches.Set(p.db.UID, w, w.every+resync/2)
}

// dueIn returns the time until the operator reads again, or 0 if this is due or if the clock was set back.
func (w watch) dueIn(now time.Time) time.Duration {
	age := now.Sub(w.at)
	if age < 0 {
		return 0
	}
	return max(0, w.every-age)
}

// watchAgain returns the time until the operator reads again how full the volume is, or 0 if the next resync is soon
// enough.
func (p *scope) watchAgain(now time.Time) time.Duration {
	if !isWatched(p.db) || p.watch.every == 0 {
		return 0
	}
	return max(p.watch.dueIn(now), time.Second)
}

// grow makes a volume grow by a fifth that is at least four fifths full, up to spec.storage.maxSize. The claim keeps
// its size afterwards, because volumes cannot shrink. If the API server rejects the growth, grow sets p.growthRejected.
func (r *reconciler) grow(ctx context.Context, p *scope) error {
	if p.cannotGrow != nil || !needsGrowth(p) {
		return nil
	}
	next, possible := nextSize(*claims.Size(p.claim), p.db.Spec.Storage.MaxSize)
	if !possible {
		return nil
	}
	if last, found := r.rejections.Recent(p.db.UID, partGrowth, next.String()); found {
		p.growthRejected = last.Err
		return nil
	}
	desired := desiredClaim(p.db)
	desired.Spec.Resources.Requests[corev1.ResourceStorage] = next
	claim, err := r.claim.Type().Update(ctx, p.Owner, desired)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		p.growthRejected = r.rejections.Note(p.db.UID, partGrowth, next.String(), err, growthRetry, growthRetry).Err
		return nil
	}
	if err == nil {
		p.claim = claim
	}
	return err
}

// partGrowth is the part of a Database whose rejections grow remembers.
const partGrowth = "growth"

// needsGrowth reports whether a volume is at least four fifths full. It returns false while the volume grows.
func needsGrowth(p *scope) bool {
	used := p.watch.volume
	if size, full := fullVolume(p.pod); full {
		used = postgresql.VolumeUsage{Percent: 100, Bytes: size}
	}
	return used.Percent >= growAt && growth(p.claim) == nil && compareSize(used.Bytes, p.claim) == 0
}

// compareSize compares the size of a file system with the size of its volume. It returns 0 if the file system fills the
// volume, and 1 if the file system is larger, because it has other data too. It returns -1 if the file system is
// smaller: then its size was measured before the volume grew.
func compareSize(bytes int64, claim *corev1.PersistentVolumeClaim) int {
	capacity, size := claim.Status.Capacity.Storage().AsApproximateFloat64(), float64(bytes)
	switch {
	case size < capacity*7/8: // a file system takes less for itself, and a volume grows by more
		return -1
	case size > capacity*5/4:
		return 1
	}
	return 0
}

// fullMessage matches the message with which server.sh ends because the volume is full. Its group is the size in KiB.
var fullMessage = regexp.MustCompile(`^The volume is full: -?\d+ of (\d{1,15}) KiB are free\.`)

// fullVolume returns the size of the volume in bytes if PostgreSQL does not run because the volume is full.
func fullVolume(pod *corev1.Pod) (size int64, full bool) {
	if pod == nil {
		return 0, false
	}
	status := pods.StatusOf(pod, containerName)
	ended := status.State.Terminated
	if ended == nil {
		ended = status.LastTerminationState.Terminated
	}
	if ended == nil || status.Ready {
		return 0, false
	}
	found := fullMessage.FindStringSubmatch(ended.Message)
	if found == nil {
		return 0, false
	}
	size, err := strconv.ParseInt(found[1], 10, 64)
	return size << 10, err == nil
}

// nextSize returns the size to which a volume grows: a fifth more, rounded up to GiB, but at most limit. possible is
// false if the volume has this size already, or if there is no limit.
func nextSize(has resource.Quantity, limit *resource.Quantity) (next resource.Quantity, possible bool) {
	if limit == nil || has.Cmp(*limit) >= 0 {
		return has, false
	}
	const gibibyte = 1 << 30
	size := has.Value()
	if size < limit.Value()-size/growthPart-gibibyte { // so that the sum does not overflow
		size += size/growthPart + gibibyte - 1
		next = *resource.NewQuantity(size-size%gibibyte, resource.BinarySI)
		return next, true
	}
	return limit.DeepCopy(), true
}

// addVolume changes the summary of a Database that is Ready if its volume is nearly full, or if the operator does not
// know how full a volume is that should grow.
func (p *scope) addVolume(summary *controller.Summary) {
	used, size := usedPercent(p.db), claims.Size(p.claim).String()
	grows := growth(p.claim) != nil || p.watch.volume.Bytes > 0 && compareSize(p.watch.volume.Bytes, p.claim) < 0
	switch {
	case used == 100:
		summary.State, summary.Note = controller.StateDegraded, messageVolumeFull.Note(size, p.volumeAdvice(grows))
	case used >= nearlyFull, used >= growAt && !grows:
		summary.Note = messageVolumeFilling.Note(used, size, p.volumeAdvice(grows))
	case p.watch.unreachable && p.db.Spec.Storage.MaxSize != nil:
		summary.Note = messageVolumeNotObserved.Note()
	}
}

// volumeAdvice returns what a user can do about a volume that is nearly full. grows is true if the volume is growing,
// or has just grown.
func (p *scope) volumeAdvice(grows bool) string {
	limit := p.db.Spec.Storage.MaxSize
	switch {
	case grows:
		return messageIsGrowing.With(claims.Requested(p.claim))
	case p.growthRejected != nil:
		return messageGrowthFailed.With(p.growthRejected)
	case limit == nil:
		return messageSetMaxSize.With()
	case claims.Size(p.claim).Cmp(*limit) >= 0:
		return messageAtMaxSize.With()
	}
	return messageGrowthUnknown.With()
}
