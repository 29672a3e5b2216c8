package database

import (
	"context"
	"time"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/claims"
	"windlass.dev/windlass/pkg/postgresql"
)

// The script in the Pod measures how full the volume is: see volume.sh. The operator reads the result when it logs in
// to the server, because the metrics of the kubelet need permissions for nodes.

const (
	// readOften is how often the operator reads how full a volume is, if the volume has a maxSize or is at least four
	// fifths full.
	readOften = 30 * time.Second
	// failedFactor multiplies the time until the next reading after two consecutive failures.
	failedFactor = 10
	// nearlyFull is the percentage at which the status says how full a volume is although the volume is growing.
	nearlyFull = 90
	// isFull is the percentage at which transactions are read-only.
	isFull = 100
	// settlingReadings is the number of readings for which the operator waits until the script has measured a volume that
	// has grown.
	settlingReadings = 3
)

// reading is what the operator has read about a volume. The zero value means that the operator has read nothing.
type reading struct {
	at time.Time // the time of the last attempt
	// volume is the result of the last successful reading.
	volume postgresql.VolumeUsage
	// failed is true if the last attempt failed, and unobserved is true if the attempt before failed too.
	failed, unobserved bool
	// backup is what the operator has read about the backup.
	backup backupReading
	// small is the number of consecutive readings in which the file system was smaller than the volume.
	small int
}

// readVolume sets p.reading. It reads from the server how full the volume is if this is due.
func (r *reconciler) readVolume(ctx context.Context, p *scope) {
	now := r.clock.Now()
	last, found := r.lastReading(p.db)
	p.reading = last
	if !found && !p.isReadOften() {
		r.keepReading(p, reading{at: now}) // so that a new process does not connect to all servers at once
		return
	}
	if found && last.dueIn(p.every(), now) > 0 {
		return
	}
	seen, err := r.lookAt(ctx, p)
	r.noteReading(p, seen, err)
}

// isReadOften reports whether the operator reads every 30 s how full the volume is, and what the backup has stored.
func (p *scope) isReadOften() bool {
	return p.db.Spec.Storage.MaxSize != nil || hasBackup(p) || p.usedPercent() >= growAt
}

// usedPercent returns the percentage of the last successful reading or, if this process has read nothing, of the
// status.
func (p *scope) usedPercent() int32 {
	if p.reading.volume != (postgresql.VolumeUsage{}) || p.db.Status.Server == nil {
		return p.reading.volume.Percent
	}
	return p.db.Status.Server.VolumeUsedPercent
}

// noteReading sets p.reading and the status from the result of lookAt, seen and err. A server to which the operator may
// not connect now is neither a success nor a failure. An attempt soon after the previous one does not count as another
// failure: while a server applies its settings, the operator tries every 2 s.
func (r *reconciler) noteReading(p *scope, seen postgresql.ServerSettings, err error) {
	now, volume := r.clock.Now(), seen.Volume
	last, found := r.lastReading(p.db)
	soon := found && last.dueIn(readOften, now) > 0
	switch {
	case err == nil:
		last.backup = last.backup.next(seen.Backup, p.db.Status.Backup, now)
	case !soon && postgresql.ClassOf(err) != postgresql.Busy:
		last.backup.failures++
	}
	next := reading{at: now, volume: volume, backup: last.backup}
	switch {
	case err != nil && postgresql.ClassOf(err) == postgresql.Busy:
		next = last
		next.at = now
	case (err != nil || volume == postgresql.VolumeUsage{}) && soon:
		next = last
	case err != nil || volume == postgresql.VolumeUsage{}:
		next = last
		next.at, next.failed, next.unobserved = now, true, last.failed
	default:
		if p.db.Status.Server != nil { // nil if the server has not got the newest settings
			p.db.Status.Server.VolumeUsedPercent = volume.Percent
		}
		next.small = countSmall(last, compareSize(volume.Bytes, p.claim), soon)
		if soon {
			next.at = last.at
		}
	}
	r.keepReading(p, next)
}

// countSmall returns reading.small for a reading whose result of compareSize is compared.
func countSmall(last reading, compared int, soon bool) int {
	switch {
	case compared >= 0:
		return 0
	case soon:
		return max(1, last.small)
	}
	return last.small + 1
}

func (r *reconciler) lastReading(db *v1alpha1.Database) (last reading, found bool) {
	known, found := r.readings.Get(db.UID)
	if !found {
		return last, false
	}
	last, found = known.(reading)
	return last, found
}

// keepReading sets p.reading, and remembers it until a few minutes after the next reading is due.
func (r *reconciler) keepReading(p *scope, next reading) {
	p.reading = next
	r.readings.Set(p.db.UID, next, p.every()+resync/2)
}

// every returns the time between two readings.
func (p *scope) every() time.Duration {
	every := resync
	if p.isReadOften() {
		every = readOften
	}
	observed := hasBackup(p) && p.reading.backup.failures == 0
	if p.reading.unobserved && !observed && p.reading.volume.Percent < growAt {
		every *= failedFactor
	}
	return every
}

// dueIn returns the time until the next reading, or 0 if the reading is due or the clock was set back.
func (last reading) dueIn(every time.Duration, now time.Time) time.Duration {
	age := now.Sub(last.at)
	if age < 0 {
		return 0
	}
	return max(0, every-age)
}

// readAgain returns the time until the next reading, or 0 if the next resync is soon enough.
func (p *scope) readAgain(now time.Time) time.Duration {
	if !p.isReadOften() || p.reading.at.IsZero() {
		return 0
	}
	return max(p.reading.dueIn(p.every(), now), time.Second)
}

// volumeFull returns an error if the volume is full, and nil otherwise.
func (p *scope) volumeFull() error {
	if p.claim == nil { // an earlier step has failed
		return nil
	}
	switch _, stopped := fullVolume(p.db, p.pod); {
	case stopped:
		return messageStoppedByVolume.Error(claims.Size(p.claim), p.volumeAdvice())
	case p.usedPercent() >= isFull:
		return messageVolumeFull.Error(claims.Size(p.claim), p.volumeAdvice())
	}
	return nil
}

// addVolume changes the summary of a Database that is Ready if its volume is nearly full, or if the operator does not
// know how full a volume is that should grow.
func (p *scope) addVolume(summary *controller.Summary) {
	used := p.usedPercent()
	switch {
	case used >= nearlyFull, used >= growAt && !p.grows():
		summary.Note = messageVolumeFilling.Note(used, claims.Size(p.claim), p.volumeAdvice())
	case p.reading.unobserved && p.db.Spec.Storage.MaxSize != nil:
		summary.Note = messageVolumeNotObserved.Note(p.statefulSet.Name + "-0")
	}
}

// grows reports whether the volume is growing, or has grown so recently that the script has not measured it since.
func (p *scope) grows() bool {
	size, stopped := fullVolume(p.db, p.pod)
	if !stopped && p.reading.small <= settlingReadings {
		size = p.reading.volume.Bytes
	}
	return growth(p.claim) != nil || size > 0 && compareSize(size, p.claim) < 0
}

// volumeAdvice returns what a user can do about a volume that is nearly full.
func (p *scope) volumeAdvice() string {
	limit, size := p.db.Spec.Storage.MaxSize, claims.Size(p.claim)
	growing := growth(p.claim)
	switch {
	case growing != nil:
		return growing.Message
	case p.grows():
		return messageHasGrown.With()
	case p.growthRejected != nil:
		return messageGrowthFailed.With(p.growthRejected)
	case limit == nil:
		return messageSetMaxSize.With(size)
	case size.Cmp(*limit) >= 0:
		return messageAtMaxSize.With()
	case p.reading.volume.Bytes > 0 && compareSize(p.reading.volume.Bytes, p.claim) != 0:
		return messageOtherFileSystem.With(size)
	}
	return messageWillGrow.With()
}
