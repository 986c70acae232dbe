// Package version is the version of the program that runs.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// linked is the version that the linker sets, as the Makefile and e2e/release do; empty in
// other builds.
var linked string

// String returns the version of this build: the version of the linker, otherwise the version of the module, which Go takes
// from the commit; "devel" without both.
func String() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(linked, info)
}

// Line returns the version of a program as it prints it: its name, the version, the version of Go, and the platform.
func Line(program string) string {
	return fmt.Sprintf("%s %s %s %s/%s", program, String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func versionOf(linked string, info *debug.BuildInfo) string {
	switch {
	case linked != "":
		return linked
	case info != nil && info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	return "devel"
}
