package owners

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// maxNamed is how many objects in a container a message names.
const maxNamed = 3

// Inside are the objects that the deletion of a Namespace or CustomResourceDefinition would delete. Objects that are being
// deleted are ignored, and so are objects that the garbage collector deletes with their owners.
type Inside struct {
	// Kept are the objects with the annotation keep. Owned are the objects of other VidraResources, with their owners, and the objects
	// that other VidraResources have, or may have, in their manifests and may apply. Unmanaged are the objects without an owner,
	// except objects that Kubernetes makes in each namespace.
	Kept, Owned, Unmanaged Some
}

// Some are the first of several objects, and the number of all.
type Some struct {
	first Member
	names []string
	Count int
}

func (s *Some) add(m Member, name string) {
	if s.Count++; s.Count == 1 {
		s.first = m
	}
	if len(s.names) < maxNamed {
		s.names = append(s.names, name)
	}
}

// String names the objects.
func (s Some) String() string { return display.First(s.names, maxNamed, s.Count) }

// Member is an object in a container that is removed.
type Member struct {
	Key     trigger.ObjectKey
	Content cluster.Content
	// Of is the end of messages about its owners, without the owner of the container, or empty.
	Of string
	// Received reports that Of is about a manifest that has it, or may have.
	Received bool
	// Ours reports that the owner of the container owns it.
	Ours bool
}

// Add adds an object.
func (i *Inside) Add(m Member) {
	switch name := m.id().String(); {
	case m.Content.DeletionTimestamp != nil:
	case m.Content.Annotations[v1alpha1.KeepAnnotation] == "true":
		i.Kept.add(m, name)
	case m.Of != "":
		i.Owned.add(m, name+m.Of)
	case !m.Ours && len(m.Content.OwnerReferences) == 0 && !isNamespaceDefault(m.Content):
		i.Unmanaged.add(m, name)
	}
}

func (m Member) id() object.Identity {
	return object.Identity{GroupKind: schema.GroupKind{Group: m.Content.GVR.Group, Kind: m.Content.Kind}, Namespace: m.Content.Namespace, Name: m.Content.Name}
}

// identified is the object with its identity alone.
func (m Member) identified() *unstructured.Unstructured {
	u := object.Bare(m.Content.GVR.GroupVersion().WithKind(m.Content.Kind), m.Content.Namespace, m.Content.Name)
	u.SetUID(m.Content.UID)
	return u
}

// Occupied is the reason to keep a container: it holds Object, which a user has to remove first.
type Occupied struct {
	Object trigger.ObjectKey
	// Received reports that the manifest of another VidraResource is the reason, which may change while Object stays as it is.
	Received bool
	text     string
}

func (o *Occupied) Error() string { return o.text }

// occupy returns the reason to keep a container with these objects.
func (s Some) occupy(text string) *Occupied { return &Occupied{s.first.Key, s.first.Received, text} }

// KeptMembers ends the texts about a container that stays for objects with the annotation keep.
const KeptMembers = " with the annotation keep"

// Keeps returns the reason to keep a container with objects that have the annotation keep, or nil.
func (i Inside) Keeps() *Occupied {
	if i.Kept.Count == 0 {
		return nil
	}
	return i.Kept.occupy("it holds " + i.Kept.String() + KeptMembers)
}

// Blocked returns the reason to keep a container with these contents: nil if it goes. unmanaged is the policy for
// unmanaged objects in it. Objects with the annotation keep are ignored: they are kept with their container.
func (i Inside) Blocked(unmanaged v1alpha1.UnmanagedContents) *Occupied {
	switch {
	case i.Owned.Count > 0:
		return i.Owned.occupy("it holds " + i.Owned.String())
	case unmanaged.Blocks() && i.Unmanaged.Count > 0:
		return i.Unmanaged.occupy(fmt.Sprintf("it holds %d unmanaged objects, and spec.unmanagedContents is %s: %s", i.Unmanaged.Count, unmanaged, i.Unmanaged))
	}
	return nil
}

// isNamespaceDefault reports whether Kubernetes makes an object in each namespace, or records the history of others in it.
//
//   - The ConfigMap kube-root-ca.crt is written by the root CA publisher, and the ServiceAccount default by the service account
//     controller, both in kube-controller-manager. Older clusters have a Secret with the token of that account.
//   - Endpoints are written for Services by the endpoints controller, and lack an owner reference.
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

// contentsTimeout is the limit for the LIST requests about the contents of a container.
const contentsTimeout = time.Minute

// Containers lists the contents of Namespaces and CustomResourceDefinitions of a cluster. See cluster.Cluster.
type Containers interface {
	// Name is the cluster in the keys of objects.
	Name() string
	VisitNamespace(ctx context.Context, namespace string, visit func(cluster.Content)) error
	VisitKind(ctx context.Context, gvr schema.GroupVersionResource, kind string, visit func(cluster.Content)) error
}

// Contents returns the contents of a Namespace or CustomResourceDefinition of the cluster at. waits reports that they count as received by a
// VidraResource whose account still lacks its Namespace. It fails if some of them, or their owners, are unknown.
func (a *Finder) Contents(ctx context.Context, at Containers, container *unstructured.Unstructured, waits bool) (Inside, error) {
	ctx, cancel := context.WithTimeout(ctx, contentsTimeout)
	defer cancel()
	var members []Member
	var failed error // the first failure: the others have the same cause
	lookup := a.lookup()
	err := visitContents(ctx, at, container, func(content cluster.Content) {
		m := Member{Content: content, Key: trigger.ObjectKey{Cluster: at.Name(), GVR: content.GVR, Namespace: content.Namespace, Name: content.Name}}
		var others []string
		if failed == nil {
			others, m.Ours, failed = a.ownersOf(ctx, m, lookup.next())
		}
		m.Content.ManagedFields = nil // the largest part of an object that is kept until all are known
		if len(others) > 0 {
			m.Of = " of " + strings.Join(others, " and ")
		}
		members = append(members, m)
	})
	if err = errors.Join(err, failed); err == nil {
		err = a.findReceivers(ctx, at, members, waits)
	}
	slices.SortFunc(members, func(a, b Member) int { // the same ones are named each time
		return cmp.Or(cmp.Compare(a.Content.Kind, b.Content.Kind), cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name),
			cmp.Compare(a.Key.GVR.Group, b.Key.GVR.Group), cmp.Compare(a.Key.GVR.Resource, b.Key.GVR.Resource))
	})
	var inside Inside
	for _, m := range members {
		inside.Add(m)
	}
	return inside, err
}

// findReceivers finds the VidraResources that have objects of a container in their manifests and own none of them: one that is suspended, or
// whose manifest is unreadable, is still to apply them.
func (a *Finder) findReceivers(ctx context.Context, at Containers, members []Member, waits bool) error {
	var ids []object.Identity
	for _, m := range members {
		if m.Of == "" && m.Content.DeletionTimestamp == nil && !isNamespaceDefault(m.Content) {
			ids = append(ids, m.id())
		}
	}
	if len(ids) == 0 {
		return nil
	}
	receivers, err := a.Named.Receivers(ctx, a.Claimant.Owner.Name, at.Name(), ids, time.Now())
	if err != nil {
		return err
	}
	for i := range members {
		if m := &members[i]; m.Of == "" && m.Content.DeletionTimestamp == nil {
			m.Of = a.receivedBy(ctx, m.Key, m.identified(), receivers[m.id()], waits)
			m.Received = m.Of != ""
		}
	}
	return nil
}

// receivedBy is the end of messages about the VidraResource that has an object in its manifest, or may have, and may apply it; else empty.
func (a *Finder) receivedBy(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, all []Receiver, waits bool) string {
	for receiver := range a.Identified(ctx, key, live, all) {
		name := v1alpha1.Kind + " " + receiver.VidraResource.Name
		may, err := a.MayTake(ctx, receiver.VidraResource, key)
		if err == nil && !may || access.IsNoNamespace(err) && !waits || receiver.Empty { // the container waits for an empty one
			continue
		}
		switch {
		case receiver.Unidentified != nil:
			return fmt.Sprintf(", which %s has in its manifest for %s, perhaps the same cluster (%v)", name, receiver.VidraResource.Spec.Destination.Server, receiver.Unidentified)
		case receiver.Unknown != nil:
			return fmt.Sprintf(", which %s may have in its manifest", name)
		case receiver.Mentioned:
			return fmt.Sprintf(", which %s mentions in a manifest that cannot be read", name)
		default:
			return " in the manifest of " + name
		}
	}
	return ""
}

// visitContents calls visit with each object in a Namespace or of a CustomResourceDefinition.
func visitContents(ctx context.Context, at Containers, container *unstructured.Unstructured, visit func(cluster.Content)) error {
	if object.IdentityIn(container).GroupKind == object.NamespaceKind {
		return at.VisitNamespace(ctx, container.GetName(), visit)
	}
	group, _, _ := unstructured.NestedString(container.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(container.Object, "spec", "names", "plural")
	kind, _, _ := unstructured.NestedString(container.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(container.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if name, _ := version["name"].(string); version["served"] == true {
			return at.VisitKind(ctx, schema.GroupVersionResource{Group: group, Version: name, Resource: plural}, kind, visit)
		}
	}
	return fmt.Errorf("no version of %s is served, so that its objects cannot be listed", container.GetName())
}

// ownersOf returns the other owners of an object in a container, and reports whether it is ours.
func (a *Finder) ownersOf(ctx context.Context, m Member, lookup *Lookup) (others []string, ours bool, err error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m.Content.PartialObjectMetadata)
	if err != nil {
		return nil, false, err
	}
	live := &unstructured.Unstructured{Object: fields}
	live.SetGroupVersionKind(m.Content.GVR.GroupVersion().WithKind(m.Content.Kind))
	all, err := a.allOwners(ctx, m.Key, live, lookup)
	for _, other := range all {
		name := "field manager " + other.Manager
		if other.Name != "" {
			name = v1alpha1.Kind + " " + other.Name
		}
		others = append(others, name)
	}
	slices.Sort(others)
	return others, a.Claimant.appliedSinceCreation(live) || !a.Claimant.Applied(live) && a.Claimant.Owns(live, nil), err
}

var namespaceAccounts = []string{"default", "builder", "deployer"}
