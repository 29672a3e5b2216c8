// Package conversion turns an At of one version of the cnat API into another,
// without loss in either direction, and answers the API server's
// ConversionReviews with it. It does no I/O.
//
// What both versions say is translated:
//
//	v1alpha1                     v1
//	spec.schedule                spec.schedule, as it is
//	spec.command: a line X       spec.command: ["/bin/sh", "-c", X], no args
//	status.phase: PENDING …      status.phase: Pending …
//	all other fields of status   the same, as they are
//
// What else v1 says in its spec rides through v1alpha1 in one annotation; see
// Annotation. Values that are not translated keep the bytes they came in, so
// that a field which this code has never heard of survives as well.
package conversion
