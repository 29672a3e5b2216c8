//go:build integration

package postgresql

// StateQuery is the query of the observed state.
var StateQuery = stateQuery
