// Command prose prints random passages of this repository, for a review of its language: 60 comments, 30 messages, 15
// paragraphs of the documentation and, with -since, 20 subjects of the commits since a revision.
//
//	prose [-seed N] [-all] [-since REVISION] DIRECTORY
//
// It omits files that git does not track, generated files and, for messages, tests. The same seed selects the same
// passages from the same tree. With -all, it prints all passages.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// minWords is the minimum number of words in a passage.
const minWords = 4

// A passage is a comment, a message, a paragraph or the subject of a commit, and its position.
type passage struct{ place, text string }

// prose holds the passages of a repository.
type prose struct{ comments, messages, paragraphs, subjects []passage }

func main() {
	seed := flag.Uint64("seed", 1, "seed of the random draw")
	all := flag.Bool("all", false, "print all passages")
	since := flag.String("since", "", "print subjects of the commits since this revision")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: prose [-seed N] [-all] [-since REVISION] DIRECTORY")
		os.Exit(2)
	}
	found, err := read(flag.Arg(0))
	if err == nil && *since != "" {
		err = found.addSubjects(flag.Arg(0), *since)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "reading %s: %v\n", flag.Arg(0), err)
		os.Exit(1)
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	for _, part := range []struct {
		name     string
		passages []passage
		count    int
	}{
		{"comment", found.comments, 60}, {"message", found.messages, 30}, {
			"paragraph", found.paragraphs, 15,
		}, {"subject", found.subjects, 20},
	} {
		if !*all {
			random.Shuffle(len(part.passages), func(i, j int) {
				part.passages[i], part.passages[j] = part.passages[j], part.passages[i]
			})
			part.passages = part.passages[:min(part.count, len(part.passages))]
		}
		for i, p := range part.passages {
			fmt.Printf("%s %d, %s\n%s\n\n", part.name, i+1, p.place, p.text)
		}
	}
}

// read returns the prose of the tracked files in directory.
func read(directory string) (*prose, error) {
	list, err := exec.Command("git", "-C", directory, "ls-files", "-z").Output()
	if err != nil {
		return nil, err
	}
	found := &prose{}
	for _, name := range strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(directory, name))
		switch {
		case os.IsNotExist(err): // the file is deleted, and the deletion is not committed
		case err != nil:
			return nil, err
		case strings.Contains(name, "generated"):
		case strings.HasSuffix(name, ".go"):
			if err := found.addGo(name, content); err != nil {
				return nil, err
			}
		case strings.HasSuffix(name, ".md"):
			found.addMarkdown(name, string(content))
		}
	}
	return found, nil
}

// addGo adds the comments of a Go file, and the string literals that are not in tests.
func (p *prose) addGo(name string, content []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		p.comments = add(p.comments, files.Position(group.Pos()).String(), strings.TrimSpace(group.Text()))
	}
	if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") {
		return nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil && !strings.Contains(text, "\n") {
				p.messages = add(p.messages, files.Position(literal.Pos()).String(), text)
			}
		}
		return true
	})
	return nil
}

// addMarkdown adds the paragraphs and list items of a document, without its tables and code.
func (p *prose) addMarkdown(name, content string) {
	line, code := 1, false
	for _, block := range strings.Split(content, "\n\n") {
		fenced := strings.Count(block, "```")%2 == 1
		if !code && !fenced && !strings.HasPrefix(block, "|") && !strings.HasPrefix(block, "    ") &&
			!strings.Contains(block, "```") {
			p.paragraphs = add(p.paragraphs, fmt.Sprintf("%s:%d", name, line), block)
		}
		code = code != fenced
		line += strings.Count(block, "\n") + 2
	}
}

// addSubjects adds the subjects of the commits since a revision.
func (p *prose) addSubjects(directory, since string) error {
	log, err := exec.Command("git", "-C", directory, "log", "--format=%h %s", since+"..").Output()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(log)) {
		commit, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		p.subjects = append(p.subjects, passage{commit, subject})
	}
	return nil
}

// add adds a passage unless it has too few words.
func add(to []passage, place, text string) []passage {
	if len(strings.Fields(text)) < minWords {
		return to
	}
	return append(to, passage{place, text})
}
