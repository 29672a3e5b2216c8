//go:build integration

package integration

import (
	"flag"
	"fmt"
	"net/http"
	"strings"

	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/schema"
)

// checkRejections returns an error unless the tests have caused each error of the API server that docs/messages.md
// lists. It runs after all tests.
func checkRejections() error {
	if flag.Lookup("test.run").Value.String() != "" {
		return nil // some tests did not run
	}
	wanted, err := schema.Rejections()
	if err != nil {
		return err
	}
	var seen strings.Builder
	if _, err := shared.Requests(func(r framework.Request) bool {
		if r.ResponseStatus.Code == http.StatusUnprocessableEntity {
			seen.WriteString(r.ResponseStatus.Message)
		}
		return false
	}); err != nil {
		return err
	}
	var missing []string
	for _, rejection := range wanted {
		if !strings.Contains(seen.String(), rejection.Message) {
			missing = append(missing, fmt.Sprintf("%s (%s)", rejection.Message, strings.Join(rejection.Fields, ", ")))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no test makes these rejections of the API server appear:\n%s", strings.Join(missing, "\n"))
	}
	return nil
}
