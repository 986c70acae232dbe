package main

import (
	"cmp"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// allNamespaces is the value of --kubeconfig-namespace that stands for all of them.
	allNamespaces = "*"
	// podNamespaceFile is where a Pod finds its namespace.
	podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// ownNamespace returns the namespace of the Pod of the operator; empty outside of a Pod.
func ownNamespace() string {
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		return namespace
	}
	text, err := os.ReadFile(podNamespaceFile)
	if err != nil { // there is no Pod, or no token is mounted into it
		return ""
	}
	return strings.TrimSpace(string(text))
}

// namespace returns the namespace of the operator: outside of a Pod, the one of the Lease. It is empty if it is unknown.
func (o *options) namespace() string { return cmp.Or(ownNamespace(), o.leaseNamespace) }

// kubeconfigNamespace returns the namespace of the Secrets with kubeconfigs for the value of
// --kubeconfig-namespace. It is unknown if both the flag and the Pod lack it.
func kubeconfigNamespace(flag, own string) (namespace string, known bool) {
	switch flag {
	case "":
		return own, own != ""
	case allNamespaces:
		return metav1.NamespaceAll, true
	}
	return flag, true
}
