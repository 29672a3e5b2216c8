package framework

import (
	"fmt"
	"os"
	"strconv"
)

// Half returns every second item. It begins with the first item if the number in the environment variable CHANGES is
// even, and otherwise with the second. Without CHANGES, Half returns all items. `make test` sets CHANGES to the number
// of commits, so that the tests of two successive commits cover all items.
func Half[T any](items []T) (half []T, err error) {
	changes := os.Getenv("CHANGES")
	if changes == "" {
		return items, nil
	}
	number, err := strconv.ParseUint(changes, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the environment variable CHANGES must be a number: %w", err)
	}
	for i, item := range items {
		if uint64(i)%2 == number%2 {
			half = append(half, item)
		}
	}
	return half, nil
}
