// Command messages prints docs/messages.md: the table of the messages that users of Windlass meet.
package main

import (
	"fmt"
	"os"

	"windlass.dev/windlass/pkg/kinds/messages"
)

func main() {
	if _, err := fmt.Print(messages.Markdown(messages.Catalogs())); err != nil {
		fmt.Fprintf(os.Stderr, "messages: %v\n", err)
		os.Exit(1)
	}
}
