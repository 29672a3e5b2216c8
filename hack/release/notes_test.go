package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSectionOfChangelog(t *testing.T) {
	const changelog = "# Changelog\n\n## [Unreleased]\n\n* next\n\n## [0.2.0] - 2026-11-25\n\n### Added\n\n* " +
		"two\n\n## [0.1.0] - 2026-01-01\n\n* one\n\n## [0.0.1] - 2025-01-01\n"
	for name, c := range map[string]struct{ version, want, failure string }{
		"a version":           {"v0.2.0", "### Added\n\n* two\n", ""},
		"the first version":   {"v0.1.0", "* one\n", ""},
		"a release candidate": {"v0.3.0-rc.1", "* next\n", ""},
		"a version that has no section": {
			"v0.3.0", "", "no section for version v0.3.0: rename the section Unreleased to [0.3.0] with the date",
		},
		"a version with an empty section": {"v0.0.1", "", "the section of version v0.0.1 is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sectionOf(changelog, c.version)
			if got != c.want || (err == nil) != (c.failure == "") || err != nil && err.Error() != c.failure {
				t.Errorf("got %q and error %v, want %q and error %q", got, err, c.want, c.failure)
			}
		})
	}
}

func TestNotesHaveNoRelativeLinks(t *testing.T) {
	changelog := filepath.Join(t.TempDir(), "CHANGELOG.md")
	const entry = "* [docs/limits.md](docs/limits.md#sizes) and [kustomize](https://kustomize.io)"
	if err := os.WriteFile(changelog, []byte("## [0.2.0]\n\n"+entry+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var notes strings.Builder
	if err := run(t.Context(), []string{"notes", "--changelog", changelog, "--version", "v0.2.0"}, &notes); err != nil {
		t.Fatal(err)
	}
	if want := "* docs/limits.md and [kustomize](https://kustomize.io)\n"; notes.String() != want {
		t.Errorf("got %q, want %q", notes.String(), want)
	}
}
