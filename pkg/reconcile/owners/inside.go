package owners

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// maxNamed is how many objects in a container a message names.
const maxNamed = 3

// Inside is what a Namespace or CustomResourceDefinition holds that its deletion would delete. Objects that are being
// deleted do not count, nor those that the garbage collector deletes with their owners.
type Inside struct {
	// Kept are the objects with the annotation keep, and Owned those of other VidraResources, with their owners. Unmanaged
	// are those that no VidraResource owns, but for those that Kubernetes makes in each namespace.
	Kept, Owned, Unmanaged Some
}

// Some are the first of several objects, and the number of all.
type Some struct {
	names []string
	Count int
}

func (s *Some) add(name string) {
	if s.Count++; len(s.names) < maxNamed {
		s.names = append(s.names, name)
	}
}

// String names the objects.
func (s Some) String() string {
	text := strings.Join(s.names, ", ")
	if more := s.Count - len(s.names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Add adds an object. others are the VidraResources that own it, without the one that removes the container, and ours reports
// that this one owns it.
func (i *Inside) Add(content cluster.Content, others []string, ours bool) {
	name := object.Identity{GroupKind: schema.GroupKind{Group: content.GVR.Group, Kind: content.Kind}, Namespace: content.Namespace, Name: content.Name}.String()
	switch {
	case content.DeletionTimestamp != nil:
	case content.Annotations[v1alpha1.KeepAnnotation] == "true":
		i.Kept.add(name)
	case len(others) > 0:
		i.Owned.add(name + " of " + strings.Join(others, " and "))
	case !ours && len(content.OwnerReferences) == 0 && !isNamespaceDefault(content):
		i.Unmanaged.add(name)
	}
}

// Blocked returns why a container is not removed that holds this: empty if it is. unmanaged is what is done about unmanaged
// objects in it. Objects with the annotation keep are no reason: they are kept with their container.
func (i Inside) Blocked(unmanaged v1alpha1.UnmanagedContents) string {
	switch {
	case i.Owned.Count > 0:
		return "it holds " + i.Owned.String()
	case unmanaged == v1alpha1.UnmanagedBlock && i.Unmanaged.Count > 0:
		return fmt.Sprintf("it holds %d unmanaged objects, and spec.unmanagedContents is Block: %s", i.Unmanaged.Count, i.Unmanaged)
	}
	return ""
}

// isNamespaceDefault reports whether Kubernetes makes an object in each namespace, or records what happened to others in it.
//
//   - The ConfigMap kube-root-ca.crt is written by the root CA publisher, and the ServiceAccount default by the service account
//     controller, both in kube-controller-manager. Older clusters have a Secret with the token of that account.
//   - Endpoints are written for Services by the endpoints controller, without an owner reference.
//   - Events expire.
//   - OpenShift writes openshift-service-ca.crt and the accounts builder and deployer.
func isNamespaceDefault(content cluster.Content) bool {
	switch kind, name := content.GVR.GroupResource().String(), content.Name; kind {
	case "configmaps":
		return name == "kube-root-ca.crt" || name == "openshift-service-ca.crt"
	case "serviceaccounts":
		return slices.Contains(namespaceAccounts, name)
	case "secrets":
		return slices.Contains(namespaceAccounts, content.Annotations[corev1.ServiceAccountNameKey])
	case "events", "events.events.k8s.io", "endpoints":
		return true
	}
	return false
}

var namespaceAccounts = []string{"default", "builder", "deployer"}
