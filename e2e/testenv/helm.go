package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

const (
	// HelmVersion is the version of helm. e2e/helm/go.mod pins it, too, which a test compares.
	HelmVersion = "v4.3.1"
	helmName    = "helm"
)

// Helm returns the path of helm in the user's cache folder. It is built from e2e/helm, if it is
// missing, as the function Assets does it.
func Helm(ctx context.Context, o Options) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", cacheError("the user's cache folder", err)
	}
	dir := filepath.Join(cache, "vidra", "helm", fmt.Sprintf("%s-%s-%s", HelmVersion, runtime.GOOS, runtime.GOARCH))
	wanted := []component{{helmName, HelmVersion, "helm.sh/helm/v4/cmd/helm"}}
	if len(missingFrom(dir, wanted)) > 0 {
		err = buildInto(ctx, dir, wanted, o.out())
	}
	return filepath.Join(dir, helmName), err
}

// build returns the folder below e2e that pins a component, and the arguments of `go build`.
func (c component) build() (module string, args []string) {
	if c.name == helmName {
		return "helm", []string{"-trimpath", "-ldflags", "-s -w -X helm.sh/helm/v4/internal/version.version=" + c.version}
	}
	for _, f := range fluxControllers {
		if c.name == f.name {
			return f.folder, []string{"-trimpath", "-ldflags", "-s -w"}
		}
	}
	return "controlplane", append(c.modFile(), "-trimpath", "-ldflags", linkerFlags(c.version))
}
