package owners

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

func TestFirstInventory(t *testing.T) {
	t.Parallel()
	entry := func(apiVersion, kind, namespace, name string) v1alpha1.ManagedResourceStatus {
		return v1alpha1.ManagedResourceStatus{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name, State: v1alpha1.ObjectPending}
	}
	want := []v1alpha1.ManagedResourceStatus{entry("v1", "ConfigMap", "shop", "page"), entry("rbac.authorization.k8s.io/v1", "ClusterRole", "", "a:b")}
	written := &v1alpha1.VidraResource{}
	written.UID = "u1"
	require.True(t, SetFirstInventory(written, want))
	require.Equal(t, want, FirstInventory(written))
	require.True(t, HoldsObject(written, "", object.IdentityOf(&want[0]), ""), "it lists the object before its status does")

	tests := map[string]struct {
		reason string
		change func(vr *v1alpha1.VidraResource)
	}{
		"Nothing":  {"a VidraResource without it", func(vr *v1alpha1.VidraResource) { vr.Annotations = nil }},
		"Copied":   {"another VidraResource with the same annotation", func(vr *v1alpha1.VidraResource) { vr.UID = "u2" }},
		"Observed": {"the status has the inventory, which may be empty", func(vr *v1alpha1.VidraResource) { vr.Status.ObservedGeneration = 1 }},
		"Listed": {"the status has the inventory", func(vr *v1alpha1.VidraResource) {
			vr.Status.ManagedResources = []v1alpha1.ManagedResourceStatus{want[0]}
		}},
		"Text": {"a user wrote no JSON", func(vr *v1alpha1.VidraResource) { vr.Annotations[v1alpha1.FirstInventoryAnnotation] = "{" }},
		"Unnamed": {"a user wrote an object without a name", func(vr *v1alpha1.VidraResource) {
			vr.Annotations[v1alpha1.FirstInventoryAnnotation] = `{"uid":"u1","objects":[["v1","ConfigMap"],[],["v1","ConfigMap","shop",""]]}`
		}},
		"Kindless": {"a user wrote an object without a kind", func(vr *v1alpha1.VidraResource) {
			vr.Annotations[v1alpha1.FirstInventoryAnnotation] = `{"uid":"u1","objects":[["","","shop","page"]]}`
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vr := written.DeepCopy()
			tt.change(vr)
			require.Empty(t, FirstInventory(vr), tt.reason)
		})
	}

	released := &v1alpha1.VidraResource{Status: v1alpha1.VidraResourceStatus{ObservedGeneration: 1}}
	require.False(t, SetFirstInventory(released, want), "another installation has reconciled it")
	require.Nil(t, released.Annotations)

	var many []v1alpha1.ManagedResourceStatus
	for i := range 200 {
		many = append(many, entry("v1", "ConfigMap", "shop", "page-"+strconv.Itoa(i)), entry("v1", "Service", "shop", "page-"+strconv.Itoa(i)))
	}
	of := &v1alpha1.VidraResource{}
	require.True(t, SetFirstInventory(of, many), "a kind and a namespace are listed once")
	require.ElementsMatch(t, many, FirstInventory(of))

	unchanged := &v1alpha1.VidraResource{}
	require.False(t, SetFirstInventory(unchanged, slices.Concat(many, many, many)), "an annotation must stay small")
	require.Nil(t, unchanged.Annotations)

	full := &v1alpha1.VidraResource{}
	full.Annotations = map[string]string{"of": strings.Repeat("x", maxAnnotations-100)}
	before := maps.Clone(full.Annotations)
	require.False(t, SetFirstInventory(full, many), "users need room for annotations")
	require.Equal(t, before, full.Annotations)

	applied := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Manifest: strings.Repeat("x", maxAnnotations)}}
	require.False(t, SetFirstInventory(applied, many), "kubectl apply has the manifest in an annotation")
	require.Nil(t, applied.Annotations)
}
