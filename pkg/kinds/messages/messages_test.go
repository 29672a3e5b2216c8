package messages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestMarkdownHasARowForEachMessage(t *testing.T) {
	toy := controller.NewCatalog("Toy")
	toy.Declare("Broken", "Toy {toy} is broken | lost.", "Mend it.")
	toy.Declare("", " Its owner waits.", "")
	page := Markdown([]*controller.Catalog{toy})
	for _, row := range []string{
		"## Toy", "| `Broken` | Toy {toy} is broken \\| lost. | Mend it. |", "|  | Its owner waits. | – |",
	} {
		if !strings.Contains(page, "\n"+row+"\n") {
			t.Errorf("the page lacks %q:\n%s", row, page)
		}
	}
}

func TestMessagesAreComplete(t *testing.T) {
	placeholder := regexp.MustCompile(`^\{[a-z]+( [a-z]+)*\}$`)
	seen := map[string]string{}
	for _, catalog := range Catalogs() {
		for _, m := range catalog.Messages() {
			if other, found := seen[m.Reason+m.Template]; found {
				t.Errorf("%s and %s declare the same message: %s", other, catalog.Title, m.Template)
			}
			seen[m.Reason+m.Template] = catalog.Title
			if m.Template == "" || m.Advice == "" {
				t.Errorf("%s: message %q has no text or no advice", catalog.Title, m.Template)
			}
			for _, name := range m.Placeholders() {
				if !placeholder.MatchString(name) {
					t.Errorf("%s: placeholder %s of %q is not a word in lower case", catalog.Title, name, m.Template)
				}
			}
		}
	}
}

// TestEveryCatalogIsListed checks that Catalogs has each catalog that a package declares.
func TestEveryCatalogIsListed(t *testing.T) {
	declared := 0
	for _, root := range []string{"../../cache", "../../controller", ".."} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			declared += catalogsIn(t, path)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Equal(t, "listed catalogs", declared, len(Catalogs()))
}

// catalogsIn returns the number of calls of NewCatalog in a file.
func catalogsIn(t *testing.T, path string) (count int) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			if fun.Name == "NewCatalog" {
				count++
			}
		case *ast.SelectorExpr:
			if fun.Sel.Name == "NewCatalog" {
				count++
			}
		}
		return true
	})
	return count
}
