package credentials

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// Observed is the state of the credentials of an object.
type Observed struct {
	// Owner is the role that owns the database, and Login the login in the connection Secret.
	Owner, Login string
	Record       Record
	// Former is the former login while it can log in, or empty.
	Former string
	// WaitingFor says what an unfinished rotation waits for, or is empty.
	WaitingFor string
}

// Status returns status.credentials. It returns nil if spec is nil and nothing was rotated.
func (o Observed) Status(spec *v1alpha1.CredentialsSpec, schedule Schedule) *v1alpha1.CredentialsStatus {
	if spec == nil && o.Record.Rotated.IsZero() && o.WaitingFor == "" && o.Login == o.Owner {
		return nil
	}
	status := &v1alpha1.CredentialsStatus{Username: o.Login, FormerUsername: o.Former, WaitingFor: o.WaitingFor}
	if !o.Record.Rotated.IsZero() {
		status.LastRotationTime = &metav1.Time{Time: o.Record.Rotated}
	}
	if at, ok := schedule.Next(o.Record); ok {
		status.NextRotationTime = &metav1.Time{Time: at}
	}
	return status
}

// Recorded returns the login in a status or, if it has none of the two logins, the owner. status may be nil.
func Recorded(owner string, status *v1alpha1.CredentialsStatus) string {
	if status == nil {
		return owner
	}
	return LoginIn(nil, owner, status.Username)
}

// NewRecord returns the Record of a connection Secret that is created with a new password: a request for a rotation
// counts as carried out. status may be nil.
func NewRecord(status *v1alpha1.CredentialsStatus, schedule Schedule) Record {
	record := Record{Request: schedule.Request}
	if status != nil && status.LastRotationTime != nil {
		record.Rotated = status.LastRotationTime.Time
	}
	return record
}
