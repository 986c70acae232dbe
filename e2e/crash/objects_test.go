package crash

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	inventories "github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// group is the one of the custom resources, which one VidraResource at a time brings
// along with their definition.
const group = "crash.example.com"

// The kinds that are managed here, and the map in which each has its content.
var kinds = map[string]struct {
	gvk  schema.GroupVersionKind
	path []string
}{
	"ConfigMap":                {schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, []string{"data"}},
	"Secret":                   {schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, []string{"data"}},
	"Service":                  {schema.GroupVersionKind{Version: "v1", Kind: "Service"}, []string{"spec", "selector"}},
	"Thing":                    {schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}, []string{"spec"}},
	"CustomResourceDefinition": {schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, nil},
}

// object names an object.
type object struct{ kind, namespace, name string }

func (o object) String() string { return o.kind + " " + o.namespace + "/" + o.name }

// content is what matters of an object.
type content map[string]string

// definition is the CustomResourceDefinition of Things.
var definition = object{kind: "CustomResourceDefinition", name: "things." + group}

// manifestOf is an object with a content, as in a manifest.
func manifestOf(o object, c content) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if o == definition {
		crd := testenv.CRD(strings.TrimSuffix(group, ".example.com"))
		encoded, _ := json.Marshal(crd.Spec)
		var spec map[string]any
		_ = json.Unmarshal(encoded, &spec)
		u.Object["spec"] = spec
	}
	u.SetGroupVersionKind(kinds[o.kind].gvk)
	u.SetName(o.name)
	u.SetNamespace(o.namespace)
	if o.kind == "Service" {
		u.Object["spec"] = map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}
	}
	if path := kinds[o.kind].path; path != nil {
		fields := map[string]any{}
		for key, value := range c {
			if o.kind == "Secret" {
				value = base64.StdEncoding.EncodeToString([]byte(value))
			}
			fields[key] = value
		}
		_ = unstructured.SetNestedMap(u.Object, fields, path...) // all of it are maps
	}
	return u
}

// contentOf is the content of an object that exists.
func contentOf(o object, live *unstructured.Unstructured) content {
	path := kinds[o.kind].path
	if path == nil {
		return content{}
	}
	fields, _, _ := unstructured.NestedStringMap(live.Object, path...)
	c := content{}
	for key, value := range fields {
		if o.kind == "Secret" {
			decoded, _ := base64.StdEncoding.DecodeString(value)
			value = string(decoded)
		}
		c[key] = value
	}
	return c
}

// managed lists all objects that have the label of Vidra.
func managed(ctx context.Context) (map[object]*unstructured.Unstructured, error) {
	found := map[object]*unstructured.Unstructured{}
	for kind, k := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.gvk)
		err := admin.List(ctx, list, client.MatchingLabels{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue})
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) { // Things come and go
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		for i := range list.Items {
			live := &list.Items[i]
			found[object{kind, live.GetNamespace(), live.GetName()}] = live
		}
	}
	return found, nil
}

// appliers are the VidraResources that applied an object.
func appliers(live *unstructured.Unstructured) []string {
	var names []string
	for _, e := range live.GetManagedFields() {
		if name, ours := strings.CutPrefix(e.Manager, v1alpha1.FieldManagerPrefix); ours && e.Operation == "Apply" {
			names = append(names, name)
		}
	}
	return names
}

// vidraResources lists the VidraResources by name.
func vidraResources(ctx context.Context) (map[string]*v1alpha1.VidraResource, error) {
	list := &v1alpha1.VidraResourceList{}
	if err := admin.List(ctx, list); err != nil {
		return nil, err
	}
	found := map[string]*v1alpha1.VidraResource{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found, nil
}

// inventory are the objects that the status of a VidraResource lists.
func inventory(v *v1alpha1.VidraResource) map[object]v1alpha1.ManagedResourceStatus {
	listed := map[object]v1alpha1.ManagedResourceStatus{}
	for _, e := range slices.Concat(v.Status.ManagedResources, inventories.FirstInventory(v)) {
		listed[object{e.Kind, e.Namespace, e.Name}] = e
	}
	return listed
}

// fingerprint shows whether an object was touched.
type fingerprint struct {
	uid     types.UID
	version string
}

func fingerprintOf(live *unstructured.Unstructured) fingerprint {
	return fingerprint{live.GetUID(), live.GetResourceVersion()}
}

// same says whether two contents are equal.
func (c content) same(other content) bool { return maps.Equal(c, other) }
