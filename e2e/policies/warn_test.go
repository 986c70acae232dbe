package policies

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// TestWarn sends all kinds of writes, and requires the warning of those that change what a VidraResource owns, and no
// warning of others.
func TestWarn(t *testing.T) {
	makeShop(t)
	for _, name := range []string{"merge patch", "scale", "scale of a StatefulSet"} { // the API server notices policies, and parameters, after a while
		suite.Await(t, func(c *assert.CollectT) {
			d, got := as(t, alice)
			require.NoError(c, writes[name].do(d))
			require.NotEmpty(c, got.all)
		})
	}
	for name, w := range writes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if w.user == "" {
				w.user = alice
			}
			d, got := as(t, w.user)
			require.NoError(t, w.do(d), w.reason)
			if w.takes == "" {
				require.Empty(t, got.all, w.reason)
				return
			}
			fate := "; fields that it owns are reverted"
			if w.fields == "" && !w.scale {
				fate = " and creates it again"
			}
			require.Equal(t, []string{"VidraResource " + owner + " manages this object" + fate + ". See: kubectl vidra why " + w.takes}, got.all, w.reason)
		})
	}
}

// TestNoWarningWithoutRights: a user who may not write learns nothing of the object.
func TestNoWarningWithoutRights(t *testing.T) {
	makeShop(t)
	for _, name := range []string{"merge patch", "delete", "scale"} {
		d, got := as(t, stranger)
		err := writes[name].do(d)
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.NotContains(t, err.Error(), "VidraResource")
		require.Empty(t, got.all)
	}
}

// TestPoliciesAgree: what warn and deny call by the same name is the same.
func TestPoliciesAgree(t *testing.T) {
	objs, err := overlay("warn", "deny")
	require.NoError(t, err)
	variables := map[string]map[any]any{}
	for _, obj := range objs {
		list, found, err := unstructured.NestedSlice(obj.Object, "spec", "variables")
		require.NoError(t, err)
		if !found {
			continue
		}
		byName := map[any]any{}
		for _, v := range list {
			byName[v.(map[string]any)["name"]] = v.(map[string]any)["expression"]
		}
		variables[obj.GetName()] = byName
	}
	require.NotEmpty(t, variables["vidra-warn"])
	for name, expression := range variables["vidra-warn"] {
		require.Equal(t, expression, variables["vidra-deny"][name], "%s", name)
	}
	for name, expression := range variables["vidra-warn-deployment-scale"] {
		require.Equal(t, expression, variables["vidra-warn-statefulset-scale"][name], "%s", name)
	}
}
