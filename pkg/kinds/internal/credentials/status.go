package credentials

import "windlass.dev/windlass/pkg/apis/windlass/v1alpha1"

// Recorded returns the login in a status. If the status has none of the logins of the owner, Recorded returns the
// owner. status may be nil.
func Recorded(owner string, status *v1alpha1.CredentialsStatus) string {
	if status == nil {
		return owner
	}
	return LoginIn(nil, owner, status.Username)
}

// NewRecord returns the Record of a connection Secret that is created with a new password. The request for a rotation
// in schedule counts as carried out, because the password is new. status may be nil.
func NewRecord(status *v1alpha1.CredentialsStatus, schedule Schedule) Record {
	record := Record{Request: schedule.Request}
	if status != nil && status.LastRotationTime != nil {
		record.Rotated = status.LastRotationTime.Time
	}
	return record
}
