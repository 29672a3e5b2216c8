package framework

import (
	"fmt"
	"os"
	"strconv"
)

// quarters is the number of test runs that cover all items of Quarter.
const quarters = 4

// Quarter returns every fourth item, beginning with one of the first four items. The number in the environment variable
// CHANGES selects this item. Without CHANGES, Quarter returns all items. `make test` sets CHANGES to the number of
// commits, so that the tests of four successive commits cover all items.
func Quarter[T any](items []T) (quarter []T, err error) {
	changes := os.Getenv("CHANGES")
	if changes == "" {
		return items, nil
	}
	number, err := strconv.ParseUint(changes, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the environment variable CHANGES must be a number: %w", err)
	}
	for i, item := range items {
		if uint64(i)%quarters == number%quarters {
			quarter = append(quarter, item)
		}
	}
	return quarter, nil
}
