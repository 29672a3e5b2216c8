//go:build integration

package integration

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/schema"
)

func TestNoFieldIsRemovedOrNarrowedWithoutNewVersion(t *testing.T) {
	t.Parallel()
	from := os.Getenv("UPGRADE_FROM")
	if from == "" {
		from = previousRelease
	}
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, args...)...).Output()
		if err != nil {
			t.Fatalf("git %s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	var texts []string
	for _, file := range strings.Fields(git("ls-tree", "--name-only", from, "artifacts/crds/")) {
		texts = append(texts, git("show", from+":"+file))
	}
	if len(texts) != 5 {
		t.Fatalf("%s has %d CustomResourceDefinitions, want 5", from, len(texts))
	}
	for _, n := range schema.Narrowings(schema.VersionsIn(t, texts), schema.Versions(t)) {
		t.Errorf("since %s, %s: this needs a new version of the kind", from, n)
	}
}
