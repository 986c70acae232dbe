package insight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/healthcheck"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TreeQuery selects the objects of [Client.Tree].
type TreeQuery struct {
	// VidraResource is its name.
	VidraResource string
	// Namespace of the objects; empty for all.
	Namespace string
	// Object is the only object; nil for all.
	Object *object.Identity
}

// Tree is the inventory of a VidraResource, with the objects that its objects own.
type Tree struct {
	Objects []*Branch `json:"objects"`
	Name    string    `json:"vidraResource"`
	// Source are the revisions of the sources of Flux that the manifest was last read from.
	Source []v1alpha1.SourceStatus `json:"source,omitempty"`

	// Root is the report of the VidraResource.
	Root Report `json:"-"`
	// Remarks name the hidden parts, with the reasons.
	Remarks []string `json:"-"`
}

// Branch is an object with those that it owns.
type Branch struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// State is the state in the inventory; empty for owned objects.
	State string `json:"state,omitempty"`
	// Health is the status of the object by kstatus or spec.healthChecks; Message is the reason if it is not Current.
	Health  string       `json:"health,omitempty"`
	Message string       `json:"message,omitempty"`
	Created *metav1.Time `json:"created,omitempty"`
	Owned   []*Branch    `json:"owned,omitempty"`

	uid types.UID
}

// ID returns the identity of the object.
func (b *Branch) ID() object.Identity { return identify(b.APIVersion, b.Kind, b.Namespace, b.Name) }

// Tree reads the objects of a VidraResource, and those that they own.
func (c *Client) Tree(ctx context.Context, q TreeQuery) (*Tree, error) {
	vr, err := c.VidraResource(ctx, q.VidraResource)
	if err != nil {
		return nil, err
	}
	reader := &treeReader{client: c, local: !Remote(vr), checks: healthcheck.Compile(vr.Spec.HealthChecks, nil)}
	if err := reader.checks.Err(); err != nil {
		reader.remark(err.Error() + ": the health of the kind is computed by kstatus")
	}
	if !reader.local {
		reader.remark("the objects are in " + vr.Spec.Destination.Server + ": what they own, their health and their age are not shown")
	}
	tree := &Tree{Name: vr.Name, Source: vr.Status.Source, Root: c.program.ReportOf(vr), Objects: reader.objects(ctx, vr, q)}
	if reader.local {
		if err := reader.addOwned(ctx, tree.Objects); err != nil {
			return nil, err
		}
	}
	tree.Remarks = reader.remarks
	return tree, nil
}

// treeReader reads objects, and those that they own.
type treeReader struct {
	client *Client
	// local reports that the objects are in the cluster of the client.
	local bool
	// checks compute the health of the objects of the VidraResource.
	checks *healthcheck.Checks
	// remarks name the hidden parts, with the reasons.
	remarks []string
}

func (t *treeReader) remark(text string) { t.remarks = append(t.remarks, text) }

// readers is how many requests are sent at a time.
const readers = 16

// objects are the objects of the inventory, in its order.
func (t *treeReader) objects(ctx context.Context, vr *v1alpha1.VidraResource, q TreeQuery) []*Branch {
	branches := []*Branch{}
	var reading errgroup.Group
	reading.SetLimit(readers)
	for _, e := range vr.Status.ManagedResources {
		if q.Namespace != "" && e.Namespace != q.Namespace || q.Object != nil && object.IdentityOf(&e) != *q.Object {
			continue
		}
		b := &Branch{APIVersion: e.APIVersion, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name, State: string(e.State)}
		branches = append(branches, b)
		if t.local {
			reading.Go(func() error {
				t.read(ctx, b)
				if e.Sensitive && b.Message != "" { // a controller may quote a value, after a user has removed the mark, too
					b.Message = "(withheld)"
				}
				return nil
			})
		}
	}
	_ = reading.Wait() // an object that cannot be read is shown without health
	slices.SortStableFunc(branches, compareBranches)
	return branches
}

func compareBranches(a, b *Branch) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// read adds the state of the live object.
func (t *treeReader) read(ctx context.Context, b *Branch) {
	gvk := schema.FromAPIVersionAndKind(b.APIVersion, b.Kind)
	mapping, err := t.client.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) { // the object exists in the other versions, too
		mapping, err = t.client.mapper.RESTMapping(gvk.GroupKind())
	}
	switch {
	case meta.IsNoMatchError(err):
		b.Health, b.Message = "Unknown", "the cluster does not serve its kind"
		return
	case err != nil:
		b.Health, b.Message = "Unknown", err.Error()
		return
	}
	live, err := t.client.dynamic.Resource(mapping.Resource).Namespace(b.Namespace).Get(ctx, b.Name, metav1.GetOptions{})
	switch {
	case object.IsAbsent(err, b.Name):
		b.Health = "NotFound"
		if v1alpha1.ObjectState(b.State) == v1alpha1.ObjectCompleted {
			b.Health, b.Message = "", "ended successfully, and its own controller removed it"
		}
	case apierrors.IsForbidden(err):
		b.Health, b.Message = "Unknown", "you may not read it"
	case err != nil:
		b.Health, b.Message = "Unknown", err.Error()
	default:
		b.show(live, t.checks.For(gvk.GroupKind()))
	}
}

// show adds the state of a live object, with its health by a check; nil for kstatus.
func (b *Branch) show(live *unstructured.Unstructured, check *healthcheck.Check) {
	health := trigger.CheckHealth(live, check)
	b.Health, b.Message = string(health.Status), health.Message
	b.Created, b.uid = new(live.GetCreationTimestamp()), live.GetUID()
}

// addOwned adds the objects that others own. The remarks count the kinds that may not be listed, and name the other unread kinds.
func (t *treeReader) addOwned(ctx context.Context, branches []*Branch) error {
	namespaces := map[string]bool{}
	byUID := map[types.UID]*Branch{}
	for _, b := range branches {
		if b.uid != "" {
			byUID[b.uid] = b
		}
		if b.Namespace != "" && b.uid != "" {
			namespaces[b.Namespace] = true
		}
	}
	if len(namespaces) == 0 {
		return nil
	}
	lists, err := t.client.kinds.ServerPreferredNamespacedResources()
	if len(lists) == 0 && err != nil {
		return fmt.Errorf("find the kinds: %w", err)
	}
	if err != nil {
		t.remark("owned objects of some kinds are not shown: " + err.Error())
	}
	found := t.owned(ctx, listable(lists), namespaces)
	for grew := true; grew; { // an object may be listed before its owner
		grew = false
		for _, u := range found {
			if _, known := byUID[u.GetUID()]; known {
				continue
			}
			for _, owner := range u.GetOwnerReferences() {
				if above := byUID[owner.UID]; above != nil {
					b := &Branch{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
					b.show(u, nil)
					above.Owned, byUID[u.GetUID()], grew = append(above.Owned, b), b, true
					slices.SortFunc(above.Owned, compareBranches)
					break
				}
			}
		}
	}
	return nil
}

// listable are the resources that can be listed, apart from Events, which own nothing and are many.
func listable(lists []*metav1.APIResourceList) []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			if r.Name != "events" && !strings.Contains(r.Name, "/") {
				all = append(all, gv.WithResource(r.Name))
			}
		}
	}
	return all
}

// owned lists the objects with an owner, in namespaces.
func (t *treeReader) owned(ctx context.Context, resources []schema.GroupVersionResource, namespaces map[string]bool) (found []*unstructured.Unstructured) {
	type answer struct {
		items []*unstructured.Unstructured
		err   error
	}
	answers := make([]answer, len(resources))
	var reading errgroup.Group
	reading.SetLimit(readers)
	for i, gvr := range resources {
		reading.Go(func() error {
			for namespace := range namespaces {
				list, err := t.client.dynamic.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{})
				if err != nil {
					answers[i].err = err
					continue
				}
				for j := range list.Items {
					if u := &list.Items[j]; len(u.GetOwnerReferences()) > 0 {
						answers[i].items = append(answers[i].items, u)
					}
				}
			}
			return nil
		})
	}
	_ = reading.Wait() // each answer has its error
	refused := 0
	for i, a := range answers {
		found = append(found, a.items...)
		switch {
		case apierrors.IsForbidden(a.err):
			refused++
		case a.err != nil:
			t.remark(fmt.Sprintf("owned objects of the kind %s are not shown: %v", resources[i].GroupResource(), a.err))
		}
	}
	if refused > 0 {
		t.remark(fmt.Sprintf("you may not list %s: owned objects of them are not shown", display.Plural(refused, "kind")))
	}
	return found
}
