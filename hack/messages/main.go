// Command messages prints docs/messages.md: the tables of the messages that users of Windlass see.
package main

import (
	"fmt"
	"os"
	"strings"

	"windlass.dev/windlass/pkg/kinds/messages"
	"windlass.dev/windlass/test/schema"
)

func main() {
	if err := printPage(); err != nil {
		fmt.Fprintf(os.Stderr, "messages: %v\n", err)
		os.Exit(1)
	}
}

// printPage prints the page: the catalogs, and then the messages of the validation rules in the CRDs.
func printPage() error {
	rejections, err := schema.Rejections()
	if err != nil {
		return err
	}
	page := messages.Markdown(messages.Catalogs())
	page += "\n## Messages of the API server\n\n" +
		"The API server rejects an object with one of these messages, and stores nothing. Correct the field that the\n" +
		"message names. [limits.md](limits.md) lists the limits of sizes and numbers. The table lacks three messages of\n" +
		"admission policies: [security.md](security.md#who-may-run-pods-through-windlass) has the message about the\n" +
		"author of a Platform, [status.md](status.md#an-at-that-is-applied-again) has the warning about an At whose\n" +
		"command would run again, and `artifacts/policies/conversion.yaml` has the message about an At of `v1alpha1`.\n\n" +
		"| field | message |\n|---|---|\n"
	for _, rejection := range rejections {
		page += fmt.Sprintf("| %s | %s |\n", strings.Join(rejection.Fields, "<br>"), messages.Cell(rejection.Message))
	}
	_, err = fmt.Print(page)
	return err
}
