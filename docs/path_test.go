package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	maxFunctions = 35 // on the path from an event of an App to its status
	maxFiles     = 20
)

// step matches a line of the drawing: the function, indented below its caller; its file; and, if the caller calls it
// by another name, this name.
var step = regexp.MustCompile(`^( *)(\w+) +(\S+\.go)(?: +as (\w+))?(?: .*)?$`)

// TestPathOfAnAppIsDrawn checks that each function in the drawing "From one event of an App to its status" is in its
// file, and that the function above it calls it.
func TestPathOfAnAppIsDrawn(t *testing.T) {
	page, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## From one event of an App to its status\n")
	_, drawing, open := strings.Cut(section, "\n```\n")
	drawing, _, closed := strings.Cut(drawing, "\n```\n")
	if !found || !open || !closed {
		t.Fatal("architecture.md has no drawing")
	}
	lines, files := strings.Split(drawing, "\n"), map[string]bool{}
	var callers []string // the names in the bodies of the functions above, by indentation
	for _, line := range lines {
		match := step.FindStringSubmatch(line)
		if match == nil {
			t.Fatalf("%q is not a function with its file", line)
		}
		depth, function, file, calledAs := len(match[1])/2, match[2], match[3], match[4]
		if calledAs == "" {
			calledAs = function
		}
		files[file] = true
		if depth > len(callers) {
			t.Fatalf("%s is two levels below its caller", function)
		}
		if depth > 0 && !strings.Contains(callers[depth-1], " "+calledAs+" ") {
			t.Errorf("the function above %s does not use %s", function, calledAs)
		}
		callers = append(callers[:depth], namesIn(t, filepath.Join("..", file), function))
	}
	if len(lines) > maxFunctions || len(files) > maxFiles {
		t.Errorf("the path has %d functions in %d files, and may have %d in %d",
			len(lines), len(files), maxFunctions, maxFiles)
	}
}

// namesIn returns the identifiers in the body of a function or method of a file.
func namesIn(t *testing.T, file, function string) string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := " "
	for _, declared := range parsed.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok && f.Name.Name == function {
			ast.Inspect(f.Body, func(node ast.Node) bool {
				if name, ok := node.(*ast.Ident); ok {
					names += name.Name + " "
				}
				return true
			})
		}
	}
	if names == " " {
		t.Fatalf("%s has no function %s", file, function)
	}
	return names
}
