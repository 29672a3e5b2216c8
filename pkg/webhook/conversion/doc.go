// Package conversion converts an At from one version of the cnat API to another, without loss in either
// direction. It does no I/O.
//
// Fields that both versions have are translated:
//
//	v1alpha1                     v1
//	spec.schedule                spec.schedule, unchanged
//	spec.command: a line X       spec.command: ["/bin/sh", "-c", X], no args
//	status.phase: PENDING …      status.phase: Pending …
//	all other fields of status   the same fields, unchanged
//
// In v1alpha1, one annotation carries the other fields of a v1 spec: see Annotation. Values that are not
// translated keep their bytes, so that no conversion loses an unknown field.
package conversion
