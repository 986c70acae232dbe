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

// String returns the version of this build: that of the linker, otherwise that of the module,
// which Go takes from the commit; "devel" where there is neither.
func String() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(linked, info)
}

// Line returns what a program prints as its version: its name, the version, the version of Go,
// and the platform.
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
