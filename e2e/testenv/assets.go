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
// The version of Kubernetes is that of K8S_VERSION. Without that variable,
// the folder is KUBEBUILDER_ASSETS when that has all three, else one in the
// user's cache folder (os.UserCacheDir), named by version. What the latter
// lacks is built from e2e/controlplane, for which the working directory has to
// be inside the checkout; with nothing to build no checkout is needed. A build
// takes minutes and shows its progress on Options.Out.
//
// It blocks until the folder is complete or ctx ends, and is safe to call from
// several processes at a time.
func Assets(ctx context.Context, o Options) (string, error) {
	version, err := Version()
	if err != nil {
		return "", err
	}
	return assets(ctx, o, version, components(version))
}

// Kubectl returns the path of kubectl, of the version of the control plane. It is found and
// built as the function Assets does it, after which a build takes less than a minute.
func Kubectl(ctx context.Context, o Options) (string, error) {
	version, err := Version()
	if err != nil {
		return "", err
	}
	dir, err := assets(ctx, o, version, []component{kubectl(version)})
	return filepath.Join(dir, kubectlName), err
}

// assets returns a folder that holds what is wanted, and builds what is missing.
func assets(ctx context.Context, o Options, version string, wanted []component) (string, error) {
	out := o.out()
	if dir := os.Getenv(assetsEnv); dir != "" && os.Getenv(versionEnv) == "" {
		missing := missingFrom(dir, wanted)
		if len(missing) == 0 {
			return dir, nil
		}
		_, _ = fmt.Fprintf(out, "%s=%s lacks %s: using what is built from source instead\n",
			assetsEnv, dir, names(missing))
	}

	cache, err := os.UserCacheDir()
	if err != nil {
		return "", cacheError("the user's cache folder", err)
	}
	dir := filepath.Join(cache, "vidra", "controlplane", versionKey(version))
	if len(missingFrom(dir, wanted)) == 0 {
		return dir, nil
	}
	if err := buildInto(ctx, dir, wanted, out); err != nil {
		return "", err
	}
	return dir, nil
}

// buildInto builds what dir lacks of what is wanted, under a lock.
func buildInto(ctx context.Context, dir string, wanted []component, out io.Writer) error {
	root, err := Root()
	if err != nil {
		return fmt.Errorf("%s lacks %s, and building needs the source: %w", dir, names(missingFrom(dir, wanted)), err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return cacheError(dir, err)
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, ".lock"), out)
	if err != nil {
		return cacheError(dir, err)
	}
	defer unlock()

	// What a killed build left has no owner while this process holds the lock.
	leftovers, err := filepath.Glob(filepath.Join(dir, tempPattern))
	if err != nil {
		return err
	}
	for _, l := range leftovers {
		_ = os.RemoveAll(l)
	}

	// Another process may have built all of it while this one waited for the lock.
	missing := missingFrom(dir, wanted)
	start := time.Now()
	for i, c := range missing {
		module, args := c.build()
		err := goBuild(ctx, buildOptions{
			what:   fmt.Sprintf("%s %s (%d of %d)", c.name, c.version, i+1, len(missing)),
			dir:    filepath.Join(root, "e2e", module),
			pkg:    c.pkg,
			target: filepath.Join(dir, c.name),
			args:   args,
			env:    []string{"CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off"},
			out:    out,
		})
		if err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		_, _ = fmt.Fprintf(out, "built %s in %s; kept in %s\n", names(missing), time.Since(start).Round(time.Second), dir)
	}
	return nil
}

// missingFrom returns the wanted components that dir does not hold as executables.
func missingFrom(dir string, wanted []component) []component {
	var missing []component
	for _, c := range wanted {
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

// cacheError returns an error with what the user can do about a cache that cannot be used.
func cacheError(what string, err error) error {
	return fmt.Errorf("cannot keep the control plane in %s: %w; set XDG_CACHE_HOME to a folder that can be written, "+
		"or %s to one that holds %s", what, err, assetsEnv, names(components(KubernetesVersion)))
}
