package testenv

import (
	"fmt"
	"runtime"
	"strings"
)

// Versions of the control plane. e2e/controlplane/go.mod pins the same ones; a
// test compares them. They are repeated here so that a filled cache is found
// without a checkout at hand.
const (
	// KubernetesVersion is the version of kube-apiserver,
	// kube-controller-manager and kubectl.
	KubernetesVersion = "v1.36.3"
	// EtcdVersion is the version of etcd.
	EtcdVersion = "v3.6.8"
)

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
func components() []component {
	return []component{
		{etcdName, EtcdVersion, "go.etcd.io/etcd/server/v3"},
		{apiServerName, KubernetesVersion, "k8s.io/kubernetes/cmd/kube-apiserver"},
		{controllerManagerName, KubernetesVersion, "k8s.io/kubernetes/cmd/kube-controller-manager"},
	}
}

// kubectl is the client, which only tests of commands need.
func kubectl() component {
	return component{kubectlName, KubernetesVersion, "k8s.io/kubernetes/cmd/kubectl"}
}

// versionKey names the folder in the cache that holds the executables.
func versionKey() string {
	return fmt.Sprintf("kubernetes-%s-etcd-%s-%s-%s", KubernetesVersion, EtcdVersion, runtime.GOOS, runtime.GOARCH)
}

// linkerFlags makes the executables report the version that they were built
// from: a plain `go build` would report v0.0.0, and clients ask.
func linkerFlags() string {
	const pkg = "k8s.io/component-base/version"
	major, rest, _ := strings.Cut(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s",
		pkg, KubernetesVersion, major, minor)
}
