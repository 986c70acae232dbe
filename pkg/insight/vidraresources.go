package insight

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
)

// VidraResources reads VidraResources.
type VidraResources interface {
	// Get returns the error of the API server, such as NotFound.
	Get(ctx context.Context, name string) (*v1alpha1.VidraResource, error)
	// List returns those with the labels of a selector, in the order of their names. The caller leaves them as they are.
	List(ctx context.Context, selector string) ([]*v1alpha1.VidraResource, error)
}

// requested reads VidraResources by a request each time.
type requested struct{ client dynamic.Interface }

// Requested returns VidraResources that are read by a request each time.
func Requested(client dynamic.Interface) VidraResources { return requested{client} }

func (r requested) Get(ctx context.Context, name string) (*v1alpha1.VidraResource, error) {
	u, err := r.client.Resource(v1alpha1.Resource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return AsVidraResource(u)
}

func (r requested) List(ctx context.Context, selector string) ([]*v1alpha1.VidraResource, error) {
	list, err := r.client.Resource(v1alpha1.Resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	all := make([]*v1alpha1.VidraResource, 0, len(list.Items))
	for i := range list.Items {
		vr, err := AsVidraResource(&list.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, vr)
	}
	slices.SortFunc(all, func(a, b *v1alpha1.VidraResource) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// AsVidraResource converts an object that the API server returned.
func AsVidraResource(u *unstructured.Unstructured) (*v1alpha1.VidraResource, error) {
	vr := &v1alpha1.VidraResource{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, vr); err != nil {
		return nil, fmt.Errorf("read VidraResource %s: %w", u.GetName(), err)
	}
	return vr, nil
}

// VidraResource reads a VidraResource. An error has the next step of the user.
func (c *Client) VidraResource(ctx context.Context, name string) (*v1alpha1.VidraResource, error) {
	vr, err := c.resources.Get(ctx, name)
	if apierrors.IsNotFound(err) && !cluster.IsNoResource(err) {
		all, _ := c.VidraResources(ctx, "") // without the right to list them, none is proposed
		return nil, c.program.noVidraResource(name, all)
	} else if err != nil {
		return nil, c.program.VidraResourceError("get", name, err)
	}
	return vr, nil
}

// VidraResources reads the VidraResources that a label selector selects, in the order of their names. The caller leaves them
// as they are. An error has the next step of the user.
func (c *Client) VidraResources(ctx context.Context, selector string) ([]*v1alpha1.VidraResource, error) {
	all, err := c.resources.List(ctx, selector)
	if err != nil {
		return nil, c.program.VidraResourceError("list", "", err)
	}
	return all, nil
}

// noVidraResource is the error about a missing VidraResource, with the names among all that the user may mean.
func (p Program) noVidraResource(name string, all []*v1alpha1.VidraResource) error {
	names := make([]string, 0, len(all))
	for _, vr := range all {
		names = append(names, vr.Name)
	}
	return fmt.Errorf("VidraResource %s does not exist; `%s` lists those that do%s", name, p.Hint("get"), didYouMean(similar(name, names)))
}

// VidraResourceError adds the request and the next step of the user to an error about VidraResources. verb is the verb of the request, and
// name empty for a list.
func (p Program) VidraResourceError(verb, name string, err error) error {
	switch {
	case ownership.LacksRight(err):
		return fmt.Errorf("you may not %s VidraResources, which have no namespace: ask for a ClusterRoleBinding to a role with "+
			"that right on %s, such as %s: %w", verb, v1alpha1.Resource.GroupResource(), roleFor(verb), err)
	case apierrors.IsNotFound(err) && name != "" && !cluster.IsNoResource(err):
		return p.noVidraResource(name, nil)
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return fmt.Errorf("the cluster serves no VidraResources: install Vidra, or name another cluster with --context: %w", err)
	case name == "":
		return fmt.Errorf("%s VidraResources: %w", verb, err)
	}
	return fmt.Errorf("%s VidraResource %s: %w", verb, name, err)
}

// roleFor is the ClusterRole of config/rbac that has a right on VidraResources.
func roleFor(verb string) string {
	if slices.Contains([]string{"get", "list", "watch"}, verb) {
		return "vidra-vidraresource-viewer"
	}
	return "vidra-vidraresource-editor"
}

// Remote reports whether the objects of a VidraResource are in another cluster.
func Remote(vr *v1alpha1.VidraResource) bool { return !access.IsLocal(vr.Spec.Destination.Server) }

// HasObjectIn reports whether a VidraResource has an object in a namespace.
func HasObjectIn(vr *v1alpha1.VidraResource, namespace string) bool {
	return slices.ContainsFunc(vr.Status.ManagedResources, func(e v1alpha1.ManagedResourceStatus) bool { return e.Namespace == namespace })
}
