package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// runNotes prints the release notes of a version.
func runNotes(_ context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("notes", flag.ContinueOnError)
	changelog := flags.String("changelog", "CHANGELOG.md", "The changelog, in the format of https://keepachangelog.com.")
	version := flags.String("version", "", "The version, such as v0.2.0.")
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(*changelog)
	if err != nil {
		return err
	}
	section, err := sectionOf(string(text), *version)
	if err != nil {
		return fmt.Errorf("reading %s: %w", *changelog, err)
	}
	_, err = io.WriteString(out, relativeLink.ReplaceAllString(section, "$1"))
	return err
}

// relativeLink matches a link to a file of the repository. The release notes are read outside of the repository, so
// they contain only the text of the link.
var relativeLink = regexp.MustCompile(`\[([^\]]+)\]\([^):]+\)`)

// sectionOf returns the text of a version in a changelog, without its heading. A pre-release has the section
// Unreleased.
func sectionOf(changelog, version string) (string, error) {
	const heading = "\n## ["
	title := strings.TrimPrefix(version, "v")
	if strings.Contains(version, "-") {
		title = "Unreleased"
	}
	_, after, found := strings.Cut("\n"+changelog, heading+title+"]")
	if !found {
		return "", fmt.Errorf("no section for version %s: rename the section Unreleased to [%s] with the date", version,
			title)
	}
	_, section, _ := strings.Cut(after, "\n")
	section, _, _ = strings.Cut("\n"+section, heading)
	if section = strings.TrimSpace(section); section == "" {
		return "", errors.New("the section of version " + version + " is empty")
	}
	return section + "\n", nil
}
