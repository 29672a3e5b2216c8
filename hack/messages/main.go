// Command messages prints docs/messages.md: the tables of the messages that users of Windlass meet.
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
	refusals, err := schema.Refusals()
	if err != nil {
		return err
	}
	page := messages.Markdown(messages.Catalogs())
	page += "\n## Refusals of the API server\n\n" +
		"The API server refuses an object with one of these messages, and stores nothing. Correct the field that the\n" +
		"error names. [limits.md](limits.md) lists the limits of sizes and numbers. Two messages of admission " +
		"policies are not\n" +
		"in the table: [security.md](security.md#who-may-run-pods-through-windlass) has that about the author of " +
		"a Platform,\n" +
		"and [status.md](status.md#an-at-that-is-applied-again) the warning about an At whose command would run again.\n\n" +
		"| field | message |\n|---|---|\n"
	for _, refusal := range refusals {
		page += fmt.Sprintf("| %s | %s |\n", strings.Join(refusal.Fields, "<br>"), messages.Cell(refusal.Message))
	}
	_, err = fmt.Print(page)
	return err
}
