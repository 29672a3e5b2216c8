package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// writeSBOM writes an SPDX document that lists the Go modules in the image. It reads them from the build information of
// the binaries.
func (m *made) writeSBOM(path, digest string) error {
	modules, err := m.modules()
	if err != nil {
		return err
	}
	image := &v2_3.Package{
		PackageName: m.Name, PackageSPDXIdentifier: "Image", PackageVersion: m.Version,
		PackageDownloadLocation: "NOASSERTION", PrimaryPackagePurpose: "CONTAINER",
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: strings.TrimPrefix(digest, "sha256:")}},
	}
	document := &spdx.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      m.Name + ":" + m.Version,
		DocumentNamespace: "https://windlass.dev/spdx/" + m.Version + "/" + strings.TrimPrefix(digest, "sha256:"),
		CreationInfo: &v2_3.CreationInfo{
			Created: m.created.Format(time.RFC3339), Creators: []common.Creator{
				{CreatorType: "Tool", Creator: "windlass-release"},
			},
		},
		Packages:      []*v2_3.Package{image},
		Relationships: []*v2_3.Relationship{relation("DOCUMENT", common.TypeRelationshipDescribe, "Image")},
	}
	for _, module := range modules {
		added := packageOf(module)
		document.Packages = append(document.Packages, added)
		document.Relationships = append(document.Relationships,
			relation("Image", common.TypeRelationshipContains, string(added.PackageSPDXIdentifier)))
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := json.Write(document, file, json.Indent(" ")); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// modules returns the Go modules of the binaries for all platforms, in lexical order. They include the main module and
// the standard library.
func (m *made) modules() ([]debug.Module, error) {
	all := map[debug.Module]bool{}
	for platform, binary := range m.binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return nil, fmt.Errorf("reading the modules of the binary for %s: %w", platform, err)
		}
		all[debug.Module{Path: info.Main.Path, Version: m.Version}] = true
		all[debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}] = true
		for _, module := range info.Deps {
			if module.Replace != nil {
				module = module.Replace
			}
			all[debug.Module{Path: module.Path, Version: module.Version}] = true
		}
	}
	modules := make([]debug.Module, 0, len(all))
	for module := range all {
		modules = append(modules, module)
	}
	slices.SortFunc(modules, func(a, b debug.Module) int {
		return strings.Compare(a.Path+"@"+a.Version, b.Path+"@"+b.Version)
	})
	return modules, nil
}

// notInIDs are the characters that an identifier of SPDX must not have.
var notInIDs = regexp.MustCompile(`[^A-Za-z0-9.-]`)

// packageOf returns the package of a Go module, with its package URL: see
// https://github.com/package-url/purl-spec/blob/main/types-doc/golang-definition.md.
func packageOf(module debug.Module) *v2_3.Package {
	return &v2_3.Package{
		PackageName: module.Path, PackageVersion: module.Version, PackageDownloadLocation: "NOASSERTION",
		PackageSPDXIdentifier: common.ElementID("Module-" + notInIDs.ReplaceAllString(module.Path+"-"+module.Version, "-")),
		PackageExternalReferences: []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: "pkg:golang/" + module.Path + "@" + module.Version,
		}},
	}
}

func relation(from, kind, to string) *v2_3.Relationship {
	return &v2_3.Relationship{
		RefA: common.DocElementID{ElementRefID: common.ElementID(from)}, Relationship: kind,
		RefB: common.DocElementID{ElementRefID: common.ElementID(to)},
	}
}
