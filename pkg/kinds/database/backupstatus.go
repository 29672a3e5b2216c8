package database

import (
	"cmp"
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/postgresql"
)

// conditionBackedUp is the condition that says whether the backup works. Other conditions do not depend on the backup.
const conditionBackedUp = "BackedUp"

// interruptedAfter is how long the backup may be behind the server before the status says so. The Pod of the backup may
// start again meanwhile.
const interruptedAfter = 90 * time.Second

// unobservedAfter is the number of failed attempts to read after which the status says so.
const unobservedAfter = 2

// backupReading is what the operator has read about a backup. The zero value means that it has read nothing.
type backupReading struct {
	report backupReport
	// connected is true if the Pod of the backup was connected to the server.
	connected bool
	// failures is the number of consecutive attempts to read that failed.
	failures int
	readAt   time.Time // the time of the last successful attempt
	// until is the time until which the backup has stored all transactions, as far as the operator knows.
	until time.Time
	// The backup has stored all transactions until targetAt when it has stored the position target.
	target   int64
	targetAt time.Time
}

// next returns the reading after another look at the server. status is the status before: if this process has not read
// anything before, the status says until when the backup reaches at least.
func (last backupReading) next(
	seen postgresql.Backup, status *v1alpha1.DatabaseBackupStatus, now time.Time,
) backupReading {
	next := last
	next.failures, next.readAt = 0, now
	if next.until.IsZero() {
		next.until = now
		if status != nil && seen.Stored == nil {
			next.until = cmp.Or(status.RecoverableUntil, status.LastBackup, ptr.To(metav1.NewTime(now))).Time
		}
	}
	report, connected := parseReport(seen.Report)
	if next.connected = connected; connected {
		next.report = report
	}
	if seen.Stored == nil {
		return next
	}
	switch stored := *seen.Stored; {
	case stored >= seen.Written:
		next.until, next.targetAt = now, time.Time{}
		return next
	case !next.targetAt.IsZero() && stored >= next.target:
		next.until, next.targetAt = next.targetAt, time.Time{}
	}
	if next.targetAt.IsZero() {
		next.target, next.targetAt = seen.Written, now
	}
	return next
}

// backupReport is what the Pod of the backup reports.
type backupReport struct {
	newest, oldest *metav1.Time // the end of a base backup, or nil
	count          int32
	usedPercent    int32
	request        string
	problem        string // a code of backup.sh, or ""
}

// reportText matches a report of backup.sh.
var reportText = regexp.MustCompile(
	`^windlass 1 (\d{1,10}) (\d{1,10}) (\d{1,6}) (\d{1,3}) ([0-9a-z-]{1,8}) (-|full|base|spaces|other)$`)

// parseReport returns the report in an application_name. It returns false if the text is no report: the user of the
// role can send any text.
func parseReport(text string) (report backupReport, valid bool) {
	found := reportText.FindStringSubmatch(text)
	if found == nil {
		return report, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(found[i], 10, 64) // at most ten digits
		return n
	}
	at := func(i int) *metav1.Time {
		if seconds := number(i); seconds > 0 {
			return ptr.To(metav1.Unix(seconds, 0))
		}
		return nil
	}
	report = backupReport{at(1), at(2), int32(number(3)), int32(min(number(4), isFull)), found[5], found[6]}
	if report.request == "-" {
		report.request = ""
	}
	if report.problem == "-" {
		report.problem = ""
	}
	return report, true
}

// setBackup sets the status of the backup and the condition BackedUp.
func (r *reconciler) setBackup(p *scope) {
	status, list := &p.db.Status, &p.db.Status.Conditions
	if !hasBackup(p) {
		status.Backup = nil
		conditions.Remove(list, conditionBackedUp)
		return
	}
	if status.Backup == nil {
		status.Backup = &v1alpha1.DatabaseBackupStatus{}
	}
	last, _ := r.lastReading(p.db)
	read := last.backup
	if r.connector == nil {
		read.failures = unobservedAfter
	}
	read.setOn(status.Backup)
	if read.until.IsZero() && read.failures == 0 && p.backup.problem == nil &&
		conditions.Find(*list, conditionBackedUp) != nil {
		return // this process has read nothing yet
	}
	state, note := p.backedUp(read)
	conditions.Set(list, conditionBackedUp, state, note.Reason, note.Message)
}

// setOn sets the status of the backup.
func (last backupReading) setOn(status *v1alpha1.DatabaseBackupStatus) {
	if last.until.IsZero() {
		return
	}
	if last.connected {
		status.RecoverableFrom, status.LastBackup = last.report.oldest, last.report.newest
		status.Count, status.VolumeUsedPercent = last.report.count, last.report.usedPercent
	}
	status.RecoverableUntil = nil
	if last.readAt.Sub(last.until) > interruptedAfter {
		status.RecoverableUntil = ptr.To(metav1.NewTime(last.until.Truncate(time.Second)))
	}
}

// backedUp returns the condition BackedUp.
func (p *scope) backedUp(b backupReading) (metav1.ConditionStatus, controller.Note) {
	status, name := p.db.Status.Backup, backupName(p.db)
	size := p.db.Spec.Backup.Destination.Claim.Size
	switch claim := p.backup.claim; {
	case p.backup.problem != nil:
		return metav1.ConditionFalse, *p.backup.problem
	case claim != nil && claim.Status.Phase == corev1.ClaimLost:
		return metav1.ConditionFalse, messageBackupVolumeLost.Note(name)
	case b.failures >= unobservedAfter:
		return metav1.ConditionUnknown, messageBackupNotObserved.Note(p.db.Name + "-0")
	case b.report.problem == "other":
		return metav1.ConditionFalse, messageServerReplaced.Note(p.db.Namespace, p.db.Name)
	case b.report.problem == "full" || b.report.usedPercent >= isFull:
		return metav1.ConditionFalse, messageBackupFull.Note(name, &size)
	case status.RecoverableUntil != nil:
		return metav1.ConditionFalse, messageBackupInterrupted.Note(status.RecoverableUntil.UTC().Format(time.RFC3339),
			p.db.Namespace, name)
	case b.report.problem == "spaces":
		return metav1.ConditionFalse, messageTablespaces.Note()
	case b.report.problem == "base":
		return metav1.ConditionFalse, messageBaseBackupFailed.Note(p.db.Namespace, name)
	case status.RecoverableFrom == nil:
		return metav1.ConditionFalse, messageBackupStarting.Note(p.db.Namespace, name)
	case b.report.usedPercent >= growAt:
		return metav1.ConditionTrue, messageBackupFilling.Note(b.report.usedPercent, name, &size)
	}
	return metav1.ConditionTrue, messageStreaming.Note(status.RecoverableFrom.UTC().Format(time.RFC3339))
}
