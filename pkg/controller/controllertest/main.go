package controllertest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"windlass.dev/windlass/pkg/controller"
)

// Main runs the tests of a package. It fails if they leave goroutines behind, or if a message of the catalogs is never
// formatted (controller.Message.With). It does not check the messages if only some of the tests run. Call it in
// TestMain, as in
//
//	func TestMain(m *testing.M) { controllertest.Main(m, Messages) }
func Main(m *testing.M, catalogs ...*controller.Catalog) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if code == 0 && runsAllTests() && !allAppeared(catalogs) {
			code = 1
		}
		os.Exit(code)
	}))
}

// runsAllTests reports whether no flag selects tests.
func runsAllTests() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return true
}

// allAppeared reports whether the tests have made each message of the catalogs appear, and prints the missing messages.
func allAppeared(catalogs []*controller.Catalog) bool {
	all := true
	for _, catalog := range catalogs {
		for _, unused := range catalog.Unused() {
			fmt.Fprintf(os.Stderr, "no test makes this message of %s appear: %s\n", catalog.Title, unused)
			all = false
		}
	}
	return all
}
