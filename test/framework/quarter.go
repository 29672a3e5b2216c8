package framework

import (
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"testing"
)

// quarters is the number of parts into which the long tests are divided. A test run includes one part, which the number
// in the environment variable CHANGES selects. `make test` sets CHANGES to the number of commits, so that the test runs
// of four successive commits include all parts. Without CHANGES, as in `make test-all`, a test run includes all parts.
const quarters = 4

// inQuarter reports whether this run includes the item with a number.
func inQuarter(item uint64) (bool, error) {
	changes := os.Getenv("CHANGES")
	if changes == "" {
		return true, nil
	}
	number, err := strconv.ParseUint(changes, 10, 32)
	if err != nil {
		return false, fmt.Errorf("the environment variable CHANGES must be a number: %w", err)
	}
	return item%quarters == number%quarters, nil
}

// Quarter returns every fourth item, beginning with one of the first four items, or all items: see quarters.
func Quarter[T any](items []T) (quarter []T, err error) {
	for i, item := range items {
		included, err := inQuarter(uint64(i))
		if err != nil {
			return nil, err
		}
		if included {
			quarter = append(quarter, item)
		}
	}
	return quarter, nil
}

// InQuarter skips the test unless it belongs to the quarter of the tests that this run includes: see quarters. The name
// of the test decides.
func InQuarter(t *testing.T) {
	t.Helper()
	name := fnv.New64a()
	_, _ = name.Write([]byte(t.Name())) // never fails
	included, err := inQuarter(name.Sum64())
	switch {
	case err != nil:
		t.Fatal(err)
	case !included:
		t.Skip("for one of the next three commits, and for make test-all") //nolint:forbidigo // a later run proves it
	}
}
