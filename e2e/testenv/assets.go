package testenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// assetsEnv is the variable that kubebuilder projects use for the same thing.
const assetsEnv = "KUBEBUILDER_ASSETS"

// Assets returns a folder that holds etcd, kube-apiserver and
// kube-controller-manager, and builds what is missing.
//
// The folder is KUBEBUILDER_ASSETS when that has all three, else one in the
// user's cache folder (os.UserCacheDir), named by version. What the latter
// lacks is built from e2e/controlplane, for which the working directory has to
// be inside the checkout; with nothing to build no checkout is needed. A build
// takes minutes and shows its progress on Options.Out.
//
// It blocks until the folder is complete or ctx ends, and is safe to call from
// several processes at a time.
func Assets(ctx context.Context, o Options) (string, error) {
	out := o.out()
	if dir := os.Getenv(assetsEnv); dir != "" {
		missing := missingFrom(dir)
		if len(missing) == 0 {
			return dir, nil
		}
		_, _ = fmt.Fprintf(out, "%s=%s lacks %s: using a control plane built from source instead\n",
			assetsEnv, dir, names(missing))
	}

	cache, err := os.UserCacheDir()
	if err != nil {
		return "", cacheError("the user's cache folder", err)
	}
	dir := filepath.Join(cache, "vidra", "controlplane", versionKey())
	if len(missingFrom(dir)) == 0 {
		return dir, nil
	}
	if err := buildInto(ctx, dir, out); err != nil {
		return "", err
	}
	return dir, nil
}

// buildInto builds what dir lacks, under a lock.
func buildInto(ctx context.Context, dir string, out io.Writer) error {
	root, err := Root()
	if err != nil {
		return fmt.Errorf("%s lacks %s, and building needs the source: %w", dir, names(missingFrom(dir)), err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return cacheError(dir, err)
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, ".lock"), out)
	if err != nil {
		return cacheError(dir, err)
	}
	defer unlock()

	// What a killed build left behind is nobody's while we hold the lock.
	leftovers, err := filepath.Glob(filepath.Join(dir, tempPattern))
	if err != nil {
		return err
	}
	for _, l := range leftovers {
		_ = os.RemoveAll(l)
	}

	// Somebody else may have built all of it while we waited for the lock.
	missing := missingFrom(dir)
	start := time.Now()
	for i, c := range missing {
		err := goBuild(ctx, buildOptions{
			what:   fmt.Sprintf("%s %s (%d of %d)", c.name, c.version, i+1, len(missing)),
			dir:    filepath.Join(root, "e2e", "controlplane"),
			pkg:    c.pkg,
			target: filepath.Join(dir, c.name),
			args:   []string{"-trimpath", "-ldflags", linkerFlags()},
			env:    []string{"CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off"},
			out:    out,
		})
		if err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		_, _ = fmt.Fprintf(out, "built the control plane in %s; it is kept in %s\n", time.Since(start).Round(time.Second), dir)
	}
	return nil
}

// missingFrom returns the components that dir does not hold as executables.
func missingFrom(dir string) []component {
	var missing []component
	for _, c := range components() {
		info, err := os.Stat(filepath.Join(dir, c.name))
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			missing = append(missing, c)
		}
	}
	return missing
}

func names(cs []component) string {
	var s []string
	for _, c := range cs {
		s = append(s, c.name)
	}
	return strings.Join(s, ", ")
}

// cacheError says what a person can do when the cache cannot be used.
func cacheError(what string, err error) error {
	return fmt.Errorf("cannot keep the control plane in %s: %w; set XDG_CACHE_HOME to a folder that can be written, "+
		"or %s to one that holds %s", what, err, assetsEnv, names(components()))
}
