//go:build integration

package postgresql

// SightQuery is the query of the observed state.
var SightQuery = sightQuery
