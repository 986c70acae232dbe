package insight

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

func TestKindArgument(t *testing.T) {
	for want, kind := range map[string]schema.GroupKind{
		"configmap":                   {Kind: "ConfigMap"},
		"deployment":                  {Group: "apps", Kind: "Deployment"},
		"ingress":                     {Group: "networking.k8s.io", Kind: "Ingress"},
		"certificate.cert-manager.io": {Group: "cert-manager.io", Kind: "Certificate"},
	} {
		require.Equal(t, want, kindArgument(kind))
	}
}

// readable reads VidraResources for a user who may get the given ones, and list none. A nil one may not be read.
type readable map[string]*v1alpha1.VidraResource

func (r readable) Get(_ context.Context, name string) (*v1alpha1.VidraResource, error) {
	vr, exists := r[name]
	switch {
	case !exists:
		return nil, apierrors.NewNotFound(v1alpha1.Resource.GroupResource(), name)
	case vr == nil:
		return nil, apierrors.NewForbidden(v1alpha1.Resource.GroupResource(), name, errors.New("no right"))
	}
	return vr, nil
}

func (readable) List(context.Context, string) ([]*v1alpha1.VidraResource, error) {
	return nil, apierrors.NewForbidden(v1alpha1.Resource.GroupResource(), "", errors.New("no right"))
}

// TestReadableOwners: a user who may not list VidraResources has an answer about the owners that may be read, whichever others the object names.
func TestReadableOwners(t *testing.T) {
	const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: shop}\n"
	owner := func(name string) *v1alpha1.VidraResource {
		vr := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Manifest: manifest}}
		vr.Name, vr.Status.ManagedResources = name, []v1alpha1.ManagedResourceStatus{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page"}}
		return vr
	}
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("x%02d", i)
	}
	tests := map[string]struct {
		reason    string
		names     string
		readable  readable
		managedBy []string
		missing   []string
		err       string
	}{
		"Absent":    {reason: "no error", names: "a,gone", readable: readable{"a": owner("a")}, managedBy: []string{"a"}},
		"First":     {reason: "in whatever order", names: "absent,b", readable: readable{"b": owner("b")}, managedBy: []string{"b"}},
		"Forbidden": {reason: "it may be an owner", names: "a,b", readable: readable{"a": owner("a"), "b": nil}, managedBy: []string{"a", "b"}, missing: []string{`"b" is forbidden`}},
		"All":       {reason: "each is missing", names: "a,b", readable: readable{"a": nil, "b": nil}, managedBy: []string{"a", "b"}, missing: []string{`"a" is forbidden`, `"b" is forbidden`}},
		"Invalid":   {reason: "no VidraResource has the name", names: "../a,a", readable: readable{"a": owner("a"), "../a": nil}, managedBy: []string{"a"}},
		"None":      {reason: "the mark was copied", names: "gone", err: "ConfigMap shop/page names no existing VidraResource: "},
		"Many": {
			reason: "a user wrote the names", names: "a," + strings.Join(many, ","), readable: readable{"a": owner("a"), "x99": owner("x99")},
			managedBy: append([]string{"a"}, many[31:]...), missing: []string{"69 further names"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			live := objectOf(t, manifest)
			live.SetAnnotations(map[string]string{v1alpha1.OwnerAnnotation: tt.names})
			s := &subject{
				client: &Client{
					resources: tt.readable, dynamic: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), live), mapper: meta.NewDefaultRESTMapper(nil), program: DefaultProgram,
				},
				id: object.IdentityIn(live), gvk: live.GroupVersionKind(), gvr: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, typed: "cm",
			}
			err := s.read(t.Context())
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err, tt.reason)
				return
			}
			require.NoError(t, err, tt.reason)
			e := s.explain(t.Context())
			var managedBy []string
			for _, m := range e.ManagedBy {
				managedBy = append(managedBy, m.VidraResource)
			}
			require.Equal(t, tt.managedBy, managedBy, tt.reason)
			require.Len(t, e.Missing, len(tt.missing), tt.reason)
			for i, text := range tt.missing {
				require.Contains(t, e.Missing[i], text, tt.reason)
			}
		})
	}
}

// TestObjectsElsewhere: an object in another cluster is not the object of its name in this one. That is neither written nor explained for it.
func TestObjectsElsewhere(t *testing.T) {
	const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: page\n  namespace: shop\n" +
		"  managedFields: [{manager: helm, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {\"f:data\":{\"f:a\":{}}}}]\ndata: {a: b}\n"
	owner := func(name, server string) *v1alpha1.VidraResource {
		vr := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Manifest: manifest, Destination: v1alpha1.Destination{Server: server}}}
		vr.Name, vr.Status.ManagedResources = name, []v1alpha1.ManagedResourceStatus{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page"}}
		return vr
	}
	local, remote := owner("local", ""), owner("remote", "https://eu.example.com:6443")
	client := func(all ...*v1alpha1.VidraResource) *Client {
		mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
		mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
		return &Client{resources: allListed(all), dynamic: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), objectOf(t, manifest)), mapper: mapper, program: DefaultProgram}
	}
	page := Target{Kind: "configmap", Namespace: "shop", Name: "page"}

	_, err := client(remote).Managed(t.Context(), page)
	require.ErrorContains(t, err, "ConfigMap shop/page, which VidraResource remote manages, is in the cluster https://eu.example.com:6443: annotate it there")
	found, err := client(local, remote).Managed(t.Context(), page)
	require.NoError(t, err)
	require.Equal(t, []*v1alpha1.VidraResource{local}, found.Owners, "the other one answers to the object in its cluster")

	for others, of := range map[int]*Client{0: client(remote), 1: client(local, remote)} {
		s, err := of.look(t.Context(), page)
		require.NoError(t, err)
		require.Len(t, s.explain(t.Context()).Others, others, "the managers of the object of this cluster alone")
	}
}

// allListed are VidraResources that may be listed.
type allListed []*v1alpha1.VidraResource

func (all allListed) Get(context.Context, string) (*v1alpha1.VidraResource, error) {
	return nil, errors.New("they are listed")
}

func (all allListed) List(context.Context, string) ([]*v1alpha1.VidraResource, error) {
	return all, nil
}

// TestEditWith: the command names a source of Flux with its group, as other groups may have its kind, too.
func TestEditWith(t *testing.T) {
	vr := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Destination: v1alpha1.Destination{Namespace: "shop"}}}
	vr.Name = "shop"
	for want, from := range map[string]*v1alpha1.ManifestSource{
		"kubectl edit vidraresource shop":                                       nil,
		"kubectl edit configmap parts -n shop":                                  {Kind: "ConfigMap", Name: "parts", Key: "a.yaml"},
		"kubectl describe bucket.source.toolkit.fluxcd.io parts -n flux-system": {Kind: "Bucket", Namespace: "flux-system", Name: "parts"},
	} {
		require.Equal(t, want, editWith(vr, from))
	}
}

// TestArgument: a user who copies a proposed command runs no part of a name.
func TestArgument(t *testing.T) {
	tests := map[string]struct {
		reason string
		target Target
		want   string
	}{
		"plain":   {"an ordinary name is as it is", Target{Kind: "deployment", Namespace: "shop", Name: "web-1.a"}, "deployment/web-1.a -n shop"},
		"system":  {"so is one of Kubernetes", Target{Kind: "clusterrole", Name: "system:node"}, "clusterrole/system:node"},
		"command": {"the name of a Role may be a command", Target{Kind: "role", Namespace: "shop", Name: "a; id #"}, "'role/a; id #' -n shop"},
		"where":   {"a link to the page names any namespace", Target{Kind: "role", Namespace: "$(id)", Name: "a"}, "role/a -n '$(id)'"},
		"nested":  {"or one in another", Target{Kind: "role", Namespace: "shop", Name: "$(id)'`id`"}, `'role/$(id)'\''` + "`id`' -n shop"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, tt.target.Argument(), tt.reason) })
	}
}
