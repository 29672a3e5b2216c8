// Package docs_test checks that the code in the documentation is the code in the project.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a fenced block with the comment before it, if there is one, that names its file.
var block = regexp.MustCompile("(?m)(?:^<!-- from (\\S+) -->\n)?^```(\\w+)\n((?s:.*?))^```$")

func TestSnippetsAreInTheFilesThatTheyAreFrom(t *testing.T) {
	page, err := os.ReadFile("adding-a-kind.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 10 {
		t.Errorf("the page has %d blocks, and has had more", len(blocks))
	}
	for _, b := range blocks {
		file, text := b[1], b[3]
		if file == "" {
			t.Errorf("a block does not say which file it is from:\n%s", text)
			continue
		}
		source, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(string(source), text) {
			t.Errorf("%s does not have this block:\n%s", file, text)
		}
	}
}
