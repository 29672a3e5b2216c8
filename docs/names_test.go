package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentsNameExistingTests checks that the tests exist that documents and mutants name.
func TestDocumentsNameExistingTests(t *testing.T) {
	defined := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	named := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`)
	exists, mentions := map[string]bool{}, map[string]string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == "bin" || name == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		document := strings.HasSuffix(path, ".md") || strings.HasSuffix(path, ".patch")
		if !document && !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if document {
			for _, name := range named.FindAllString(string(text), -1) {
				mentions[name] = path
			}
			return nil
		}
		for _, match := range defined.FindAllStringSubmatch(string(text), -1) {
			exists[match[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(mentions) == 0 {
		t.Fatal("no document names a test")
	}
	for name, path := range mentions {
		if !exists[name] {
			t.Errorf("%s names %s, which is not a test of this repository", path, name)
		}
	}
}
