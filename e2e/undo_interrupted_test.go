package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// This file interrupts the undo of an edit between its requests. Its tests are not parallel: they stop the operator.

// fieldOwners returns the managers whose entries in managedFields have a field.
func fieldOwners(t require.TestingT, obj *unstructured.Unstructured, field string) (managers []string) {
	for _, e := range get(t, obj).GetManagedFields() {
		if strings.Contains(e.FieldsV1.GetRawString(), `"f:`+field+`"`) {
			managers = append(managers, e.Manager)
		}
	}
	return managers
}

// TestUndoAfterARefusedApply: the API server refuses the apply that follows the reclaim of what an edit added. What was reclaimed is
// returned, so that it stays if its user restores what the edit removed. After an error of the API server itself, or without an answer, the
// apply may have been executed: then the next one finishes the undo. What was there before the edit stays in any case.
func TestUndoAfterARefusedApply(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	configMaps := schema.GroupResource{Resource: "configmaps"}
	for name, tc := range map[string]struct {
		fault    faultproxy.Fault
		returned bool
	}{
		"forbidden": {faultproxy.Status(apierrors.NewForbidden(configMaps, "page", errors.New("injected"))), true},
		"conflict":  {faultproxy.Status(apierrors.NewConflict(configMaps, "page", errors.New("injected"))), true},
		"rejected":  {faultproxy.Status(apierrors.NewBadRequest("injected")), true},
		"error":     {faultproxy.Status(apierrors.NewInternalError(errors.New("injected"))), false},
		"timeout":   {faultproxy.Status(apierrors.NewTimeoutError("injected", 0)), false},
		"lost":      {faultproxy.CutAfter(0), false},
	} {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			stopOperator(t)
			proxy, through := proxied(t)
			startAnother(t, through)
			newVidraResource(t, ns, labelled)
			awaitReady(t, ns)
			page := declared(t, ns, labelled)[0]
			require.NoError(t, edit(page, types.MergePatchType, `{"data":{"injected":"1"}}`, client.FieldOwner("kubectl-edit")))
			applies := faultproxy.Match{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: ns, Name: "page", Parameter: "force"}
			rule := proxy.Inject(applies, tc.fault)
			require.NoError(t, edit(page, types.JSONPatchType, renamed, client.FieldOwner("kubectl-edit")))
			await(t, func(c *assert.CollectT) {
				require.NotZero(c, rule.Hits())
				if tc.returned {
					require.Equal(c, []string{"kubectl-edit"}, fieldOwners(c, page, "welcome"))
				}
			}, "it is returned")
			// The user takes half of the edit back.
			require.NoError(t, edit(page, types.MergePatchType, `{"data":{"greeting":"hello"}}`, client.FieldOwner("kubectl-edit")))
			rule.Remove()
			await(t, func(c *assert.CollectT) {
				live := get(c, page)
				require.Equal(c, "web", live.GetLabels()["team"])
				data, _, err := unstructured.NestedStringMap(live.Object, "data")
				require.NoError(c, err)
				require.Equal(c, "1", data["injected"])
				require.Equal(c, "hello", data["greeting"])
				require.NotContains(c, live.GetLabels(), "crew")
			})
			awaitReady(t, ns)
		})
	}
}

// TestUndoAfterAKill ends the operator after each request of the undo of edits that are undone in different scopes. The next operator
// leaves each object as an undo without an interruption does.
func TestUndoAfterAKill(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	const strategy = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: forced, labels: {team: web}}
spec:
  strategy: {type: Recreate}
  selector: {matchLabels: {app: forced}}
  template:
    metadata: {labels: {app: forced}}
    spec: {containers: [{name: web, image: "registry.invalid/web:1"}]}
`
	for name, tc := range map[string]struct {
		reason, manifest, edit string
		patch                  types.PatchType
		// applies is how many applies pass before the operator is killed at one; -1 kills it at the reclaim.
		applies int
	}{
		"reclaim":        {"before the first request", labelled, renamed, types.JSONPatchType, -1},
		"beside removed": {"the labels and the data are ours, with what the edit added", labelled, renamed, types.JSONPatchType, 0},
		"beside changed": {
			"the first apply was invalid", strategy, `{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":2}}}}`, types.MergePatchType, 1,
		},
		"since apply": {
			"a default that no manager owns is in the way", strategy, `{"spec":{"strategy":{"type":"RollingUpdate"}}}`, types.MergePatchType, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			stopOperator(t)
			proxy, through := proxied(t)
			killed := startAnother(t, through)
			newVidraResource(t, ns, tc.manifest)
			awaitReady(t, ns)
			obj := declared(t, ns, tc.manifest)[0]
			awaitOthersRecorded(t, ns, obj, func() {
				require.NoError(t, edit(obj, types.MergePatchType, `{"metadata":{"labels":{"mine":"1"}}}`, client.FieldOwner("kubectl-edit")))
			})
			before := get(t, obj)
			match := faultproxy.Match{Verb: "patch", Namespace: ns, Name: obj.GetName()}
			if tc.applies >= 0 {
				match.Verb, match.Parameter = "", "force"
			}
			stall := proxy.Inject(match, faultproxy.Stall())
			if tc.applies > 0 {
				proxy.Inject(match, faultproxy.Fault{}.Times(tc.applies))
			}
			require.NoError(t, edit(obj, tc.patch, tc.edit, client.FieldOwner("kubectl-edit")), tc.reason)
			await(t, func(c *assert.CollectT) { require.NotZero(c, stall.Hits(), tc.reason) })
			require.NoError(t, killed.Kill())
			if tc.applies >= 0 {
				require.NotEmpty(t, fieldOwners(t, obj, "mine"))
			}
			startOperator(t)
			undone(t, before)
			awaitReady(t, ns)
			require.Equal(t, []string{"kubectl-edit"}, fieldOwners(t, obj, "mine"))
			require.Equal(t, []string{v1alpha1.FieldManager(ns)}, fieldOwners(t, obj, "team"))
		})
	}
}
