package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// rootsModule holds the certificates of the image. The operator does not import it.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// newSBOM returns the software bill of materials of a program, in the JSON of CycloneDX: the
// modules that the linker noted in the program, the standard library of Go, and others. The
// program does not say which module requires which.
func (r release) newSBOM(name, path string, others ...cdx.Component) (file, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return file{}, fmt.Errorf("reading the modules of %s: %w", path, err)
	}
	program := newComponent(module, r.version)
	program.Type, program.Name = cdx.ComponentTypeApplication, name
	program.Licenses = &cdx.Licenses{{Expression: licenses}}
	components := []cdx.Component{newComponent("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	components = append(components, others...)
	for _, dep := range info.Deps {
		components = append(components, newComponent(dep.Path, dep.Version))
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.commit.time.Format(time.RFC3339), Component: &program}
	bom.Components = &components
	var text bytes.Buffer
	err = cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return file{name: name + ".cdx.json", content: text.Bytes()}, err
}

// newComponent returns a module as scanners know it, by its package URL:
// https://github.com/package-url/purl-spec
func newComponent(path, version string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl}
}

// rootsComponent returns rootsModule in the version that this program imports.
func rootsComponent() (cdx.Component, error) {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == rootsModule {
			return newComponent(dep.Path, dep.Version), nil
		}
	}
	return cdx.Component{}, fmt.Errorf("this program was built without %s", rootsModule)
}
