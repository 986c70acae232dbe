package testenv

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// versionEnv is the variable that chooses the minor version of Kubernetes, such as 1.33.
const versionEnv = "K8S_VERSION"

// Versions of the control plane. The files in e2e/controlplane pin the same ones; a test
// compares them. They are repeated here so that a filled cache is found without a checkout at
// hand.
const (
	// KubernetesVersion is the version of kube-apiserver, kube-controller-manager and kubectl
	// that the tests run against without K8S_VERSION.
	KubernetesVersion = "v1.36.3"
	// EtcdVersion is the version of etcd.
	EtcdVersion = "v3.6.8"
)

// otherVersions are the other versions that the control plane can have: with KubernetesVersion, those that
// Vidra supports. Each has a module file of its own, kubernetes-MINOR.mod.
var otherVersions = []string{"v1.37.2", "v1.35.4", "v1.34.4", "v1.33.13"}

// Version returns the version of Kubernetes that the environment variable K8S_VERSION chooses;
// KubernetesVersion without it. Its error names the versions that there are.
func Version() (string, error) {
	chosen := strings.TrimPrefix(os.Getenv(versionEnv), "v")
	if chosen == "" {
		return KubernetesVersion, nil
	}
	all := append([]string{KubernetesVersion}, otherVersions...)
	for _, version := range all {
		if chosen == strings.TrimPrefix(version, "v") || chosen == minorOf(version) {
			return version, nil
		}
	}
	return "", fmt.Errorf("%s is %q: the control plane can be built at %s; for another version, add a module file to e2e/controlplane, "+
		"and the version to e2e/testenv/versions.go", versionEnv, chosen, strings.Join(all, ", "))
}

// AtLeast reports whether the version of Kubernetes that the tests run against is a minor or a later
// one, such as 36 for 1.36.
func AtLeast(minor int) bool {
	version, err := Version()
	_, text, _ := strings.Cut(minorOf(version), ".")
	number, parseErr := strconv.Atoi(text)
	return err == nil && parseErr == nil && number >= minor
}

// minorOf returns 1.36 for v1.36.3.
func minorOf(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// The executables of the control plane, as KUBEBUILDER_ASSETS names them.
const (
	etcdName              = "etcd"
	apiServerName         = "kube-apiserver"
	controllerManagerName = "kube-controller-manager"
	kubectlName           = "kubectl"
)

// component is one executable and where its source is.
type component struct {
	name    string
	version string
	pkg     string
}

// components lists what a control plane consists of, in the order in which it
// is built: the smallest first, so that a broken set-up shows early.
func components(kubernetes string) []component {
	return []component{
		{etcdName, EtcdVersion, "go.etcd.io/etcd/server/v3"},
		{apiServerName, kubernetes, "k8s.io/kubernetes/cmd/kube-apiserver"},
		{controllerManagerName, kubernetes, "k8s.io/kubernetes/cmd/kube-controller-manager"},
	}
}

// kubectl is the client, which only tests of commands need.
func kubectl(kubernetes string) component {
	return component{kubectlName, kubernetes, "k8s.io/kubernetes/cmd/kubectl"}
}

// modFile returns the arguments that choose the module file of a component: that of another
// version than the pinned one is beside go.mod.
func (c component) modFile() []string {
	if c.version == KubernetesVersion || c.version == EtcdVersion {
		return nil
	}
	return []string{"-modfile=" + modFileName(c.version)}
}

// modFileName returns the name of the module file of another version of Kubernetes.
func modFileName(version string) string { return "kubernetes-" + minorOf(version) + ".mod" }

// versionKey names the folder in the cache that holds the executables.
func versionKey(kubernetes string) string {
	return fmt.Sprintf("kubernetes-%s-etcd-%s-%s-%s", kubernetes, EtcdVersion, runtime.GOOS, runtime.GOARCH)
}

// linkerFlags makes the executables report the version that they were built
// from: a plain `go build` would report v0.0.0, and clients ask.
func linkerFlags(kubernetes string) string {
	const pkg = "k8s.io/component-base/version"
	major, minor, _ := strings.Cut(minorOf(kubernetes), ".")
	return fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s",
		pkg, kubernetes, major, minor)
}
