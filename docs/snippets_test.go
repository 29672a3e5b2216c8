// Package docs_test checks that the documentation quotes code that exists, and names tests that exist.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block matches a fenced code block and the comment before the block, if any, that names the file of the code.
var block = regexp.MustCompile("(?m)(?:^<!-- from (\\S+) -->\n)?^```(\\w+)\n((?s:.*?))^```$")

func TestSnippetsMatchSourceFiles(t *testing.T) {
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
