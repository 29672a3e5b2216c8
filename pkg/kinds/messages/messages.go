// Package messages lists the messages that users of Windlass meet, for docs/messages.md.
package messages

import (
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/controller/rollout"
	"windlass.dev/windlass/pkg/kinds/app"
	"windlass.dev/windlass/pkg/kinds/at"
	"windlass.dev/windlass/pkg/kinds/database"
	"windlass.dev/windlass/pkg/kinds/externaldatabase"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/kinds/internal/runonce"
	"windlass.dev/windlass/pkg/kinds/platform"
)

// Catalogs returns the catalogs of all kinds, and of the packages that they share.
func Catalogs() []*controller.Catalog {
	return []*controller.Catalog{
		at.Messages,
		app.Messages,
		rollout.Messages,
		pods.Messages,
		runonce.Messages,
		database.Messages,
		database.StartMessages,
		externaldatabase.Messages,
		credentials.Messages,
		platform.Messages,
		controller.Messages,
		children.Messages,
		references.Messages,
	}
}
