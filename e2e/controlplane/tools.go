//go:build tools

// Package controlplane pins the control plane that the tests and the demo run
// against: etcd, kube-apiserver and kube-controller-manager, and kubectl for the
// commands of the docs, built from the Go module proxy. Package e2e/testenv builds and starts them.
package controlplane

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
