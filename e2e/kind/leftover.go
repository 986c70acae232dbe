package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"
)

// transient are the resources that Kubernetes makes and deletes itself, at any time.
var transient = []string{"certificatesigningrequests", "componentstatuses", "endpoints", "endpointslices", "events", "leases", "pods", "ipaddresses"}

// inventory lists the objects of a cluster by resource, namespace and name: those without a namespace,
// and those in namespaces that are not those of Kubernetes.
func inventory(ctx context.Context, kubeconfig string) (map[string]bool, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	groups, err := served.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("listing the kinds of the cluster: %w", err)
	}
	all := map[string]bool{}
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range group.APIResources {
			if !slices.Contains(resource.Verbs, "list") || slices.Contains(transient, resource.Name) {
				continue
			}
			list, err := objects.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("listing all %s: %w", resource.Name, err)
			}
			for _, object := range list.Items {
				if !strings.HasPrefix(object.Namespace, "kube-") {
					all[fmt.Sprintf("%s %s/%s", resource.Name, object.Namespace, object.Name)] = true
				}
			}
		}
	}
	return all, nil
}

// requireNothingLeft returns an error that names the objects that a cluster has, and did not have before.
func requireNothingLeft(ctx context.Context, kubeconfig string, before map[string]bool) error {
	after, err := inventory(ctx, kubeconfig)
	if err != nil {
		return err
	}
	maps.DeleteFunc(after, func(object string, _ bool) bool { return before[object] })
	if len(after) > 0 {
		return fmt.Errorf("the tests have left objects in the cluster: %q", slices.Sorted(maps.Keys(after)))
	}
	return nil
}
