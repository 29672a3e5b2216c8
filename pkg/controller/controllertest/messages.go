package controllertest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"windlass.dev/windlass/pkg/controller"
)

// Main runs the tests of a package, and fails if they do not make each message of the catalogs appear. It does not check
// that if only some of the tests run. Call it in TestMain, as in
//
//	func TestMain(m *testing.M) { controllertest.Main(m, Messages) }
func Main(m *testing.M, catalogs ...*controller.Catalog) {
	code := m.Run()
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.bench"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			os.Exit(code)
		}
	}
	for _, catalog := range catalogs {
		for _, unused := range catalog.Unused() {
			fmt.Fprintf(os.Stderr, "no test makes this message of %s appear: %s\n", catalog.Title, unused)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
