package export

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// Query selects live objects.
type Query struct {
	// Namespace is where the objects are, and Selector selects their labels. An empty Selector selects all.
	Namespace, Selector string
	// ClusterScoped also selects objects without a namespace, which needs a Selector.
	ClusterScoped bool
}

// Selected are the objects that a query selects.
type Selected struct {
	// Objects are those that no other object owns and that no component of Kubernetes writes.
	Objects []*unstructured.Unstructured
	// Owned counts the objects that another object owns, and System those that Kubernetes makes by itself.
	Owned, System int
	// Unread describes the kinds whose LIST failed.
	Unread []string
}

// page is the size of a page of a list.
const page = 500

// skipped are resources whose objects only controllers and the API server write.
var skipped = []schema.GroupResource{
	{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}, {Group: "coordination.k8s.io", Resource: "leases"},
	{Group: "coordination.k8s.io", Resource: "leasecandidates"}, {Group: "discovery.k8s.io", Resource: "endpointslices"}, {Group: "apps", Resource: "controllerrevisions"},
	{Resource: "componentstatuses"}, {Resource: "nodes"}, {Group: "storage.k8s.io", Resource: "csinodes"}, {Group: "storage.k8s.io", Resource: "volumeattachments"},
	{Group: "metrics.k8s.io", Resource: "pods"}, {Group: "metrics.k8s.io", Resource: "nodes"}, {Group: "certificates.k8s.io", Resource: "certificatesigningrequests"},
	{Group: v1alpha1.GroupVersion.Group, Resource: v1alpha1.Resource.Resource},
}

// Select lists the objects that a query selects, of all kinds that the API server serves.
func (o *Objects) Select(ctx context.Context, q Query) (*Selected, error) {
	if q.ClusterScoped && q.Selector == "" {
		return nil, errors.New("objects without a namespace are selected by labels: name some with -l")
	}
	lists, err := o.kinds.ServerPreferredResources()
	found := &Selected{}
	failed, is := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err)
	switch {
	case is:
		for gv := range failed.Groups {
			found.Unread = append(found.Unread, fmt.Sprintf("the server of %s does not answer", gv))
		}
	case err != nil:
		return nil, fmt.Errorf("ask which kinds the API server has: %w", err)
	}
	seen, absent := map[types.UID]bool{}, map[schema.GroupVersionResource]error{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			listable := slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "get") && slices.Contains(r.Verbs, "patch")
			gvr := gv.WithResource(r.Name)
			if !listable || !r.Namespaced && !q.ClusterScoped || slices.Contains(skipped, gvr.GroupResource()) {
				continue
			}
			at := dynamic.ResourceInterface(o.Dynamic.Resource(gvr))
			if r.Namespaced {
				at = o.Dynamic.Resource(gvr).Namespace(q.Namespace)
			}
			if err := found.list(ctx, at, q.Selector, seen); apierrors.IsForbidden(err) {
				found.Unread = append(found.Unread, "you may not list "+gvr.GroupResource().String())
			} else if apierrors.IsNotFound(err) { // a proxy answered, or its kind is gone since
				absent[gvr] = err
			} else if err != nil && !apierrors.IsMethodNotSupported(err) {
				return nil, fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
			}
		}
	}
	if len(absent) > 0 {
		o.kinds.Invalidate()
	}
	for gvr, err := range absent {
		if o.mayServe(gvr) {
			found.Unread = append(found.Unread, fmt.Sprintf("list %s: %v", gvr.GroupResource(), err))
		}
	}
	slices.Sort(found.Unread)
	return found, nil
}

// mayServe reports whether the API server serves a kind, as far as discovery knows.
func (o *Objects) mayServe(gvr schema.GroupVersionResource) bool {
	if _, err := o.kinds.ServerResourcesForGroupVersion("v1"); err != nil { // each API server has it, and discovery takes the 404 of a proxy for no groups
		return true
	}
	list, err := o.kinds.ServerResourcesForGroupVersion(gvr.GroupVersion().String())
	if err != nil {
		return !errors.Is(err, memory.ErrCacheNotFound)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == gvr.Resource })
}

// list adds the objects of a kind.
func (s *Selected) list(ctx context.Context, at dynamic.ResourceInterface, selector string, seen map[types.UID]bool) error {
	options := metav1.ListOptions{LabelSelector: selector, Limit: page}
	for {
		list, err := at.List(ctx, options)
		if err != nil {
			return err
		}
		for i := range list.Items {
			u := &list.Items[i]
			switch {
			case seen[u.GetUID()] || u.GetDeletionTimestamp() != nil: // served in two groups
			case len(u.GetOwnerReferences()) > 0:
				s.Owned++
			case bySystem(u):
				s.System++
			default:
				s.Objects = append(s.Objects, u)
			}
			seen[u.GetUID()] = true
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// bySystem reports whether a component of Kubernetes made an object by itself, and makes it again, or whether it is a record of a tool.
func bySystem(u *unstructured.Unstructured) bool {
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	switch u.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "ConfigMap"}:
		return u.GetName() == "kube-root-ca.crt" || u.GetName() == "openshift-service-ca.crt" || labels["owner"] == "helm"
	case schema.GroupKind{Kind: "ServiceAccount"}:
		return u.GetName() == "default"
	case schema.GroupKind{Kind: "Endpoints"}:
		_, triggered := annotations[corev1.EndpointsLastChangeTriggerTime]
		return triggered || labels["endpoints.kubernetes.io/managed-by"] != "" || writtenBy(u, "kube-controller-manager")
	case schema.GroupKind{Kind: "Secret"}:
		kind, _, _ := unstructured.NestedString(u.Object, "type")
		return kind == string(corev1.SecretTypeServiceAccountToken) || strings.HasPrefix(kind, "helm.sh/release") || kind == "bootstrap.kubernetes.io/token"
	case schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		return labels["kube-aggregator.kubernetes.io/automanaged"] != ""
	case schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}, schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"},
		schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "Role"}, schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:
		return labels["kubernetes.io/bootstrapping"] != ""
	}
	return false
}

// writtenBy reports whether a field manager alone has written an object.
func writtenBy(u *unstructured.Unstructured, manager string) bool {
	entries := u.GetManagedFields()
	return len(entries) > 0 && !slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return e.Manager != manager })
}
