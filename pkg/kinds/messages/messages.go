// Package messages lists the messages that users of Windlass meet, for docs/messages.md.
package messages

import (
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/app"
)

// Catalogs returns the catalogs of all kinds, and of the packages that they share.
func Catalogs() []*controller.Catalog {
	return []*controller.Catalog{
		app.Messages,
	}
}
