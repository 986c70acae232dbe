package policies

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// TestDeny installs the policy, and sends all kinds of writes: those that change what a VidraResource owns are refused,
// with the object, the fields, the cause and what to do, and all others pass, also those of the control plane.
func TestDeny(t *testing.T) {
	makeShop(t)
	denyFor(t)
	t.Run("writes", func(t *testing.T) {
		for name, w := range writes {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if w.user == "" {
					w.user = alice
				}
				d, _ := as(t, w.user)
				err := w.do(d)
				if w.takes == "" || w.scale {
					require.NoError(t, err, w.reason)
					return
				}
				rest := " of " + w.takes + " is refused: VidraResource " + owner + " manages this object. Change its manifest: kubectl vidra why " + w.takes +
					" names the place. In an emergency exempt the object first: kubectl annotate " + w.takes + " vidraresource.infrahub.operators.com/break-glass-until="
				if w.fields == "" {
					requireDenied(t, err, "the deletion"+rest)
					return
				}
				requireDenied(t, err, "the edit of ")
				require.ErrorContains(t, err, rest)
				_, fields, _ := strings.Cut(err.Error(), "the edit of ")
				fields, _, _ = strings.Cut(fields, " of ")
				require.ElementsMatch(t, strings.Split(w.fields, ", "), strings.Split(fields, ", "), w.reason) // the order is not defined
			})
		}
	})
	t.Run("break-glass", denyUnderBreakGlass)
	t.Run("namespace", denyLetsANamespaceGo)
}

// denyFor installs the policy for the time of a test, and waits until it refuses.
func denyFor(t *testing.T) {
	t.Helper()
	objs, err := overlay("deny")
	require.NoError(t, err)
	var policy []*unstructured.Unstructured
	for _, obj := range objs {
		if strings.HasPrefix(obj.GetName(), "vidra-deny") {
			policy = append(policy, obj)
		}
	}
	require.Len(t, policy, 2)
	require.NoError(t, testenv.Apply(t.Context(), env.Config, policy))
	d, _ := as(t, alice)
	t.Cleanup(func() {
		for _, obj := range policy {
			require.NoError(t, admin.Delete(context.Background(), obj))
		}
		suite.Await(t, func(c *assert.CollectT) { require.NoError(c, writes["merge patch"].do(d)) })
	})
	suite.Await(t, func(c *assert.CollectT) {
		requireDenied(c, writes["merge patch"].do(d), "")
		requireDenied(c, writes["custom kind"].do(d), "") // admission learns later of a new kind than discovery
	})
}

// requireDenied requires that the policy refused a write with a message.
func requireDenied(t require.TestingT, err error, message string) {
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "'vidra-deny' denied request: "+message)
}

// denyUnderBreakGlass: with the annotations of break-glass, edits and deletions pass until the time is over.
func denyUnderBreakGlass(t *testing.T) {
	d, _ := as(t, alice)
	annotate := func(until, reason string) error {
		_, err := in(d, configMaps).Patch(t.Context(), "exempt", "application/merge-patch+json", []byte(
			`{"metadata":{"annotations":{"vidraresource.infrahub.operators.com/break-glass-until":`+until+
				`,"vidraresource.infrahub.operators.com/break-glass-reason":`+reason+`}}}`), metav1.PatchOptions{FieldManager: "kubectl-annotate"})
		return err
	}
	change, takeAway := edit(configMaps, "exempt", color), remove(configMaps, "exempt", false)
	later := `"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"`
	requireDenied(t, change(d), "the edit of data.color of configmap/exempt")
	for name, ask := range map[string]struct{ until, reason string }{
		"over": {`"2026-01-31T18:00:00Z"`, `"incident 7"`}, "no time": {`"soon"`, `"incident 7"`}, "no reason": {later, `" "`},
	} {
		require.NoError(t, annotate(ask.until, ask.reason), name)
		requireDenied(t, change(d), "the edit of data.color of configmap/exempt")
	}
	requireDenied(t, takeAway(d), "the deletion of configmap/exempt")
	require.NoError(t, annotate(later, `"incident 7"`))
	require.NoError(t, change(d))
	require.NoError(t, takeAway(d))
	require.NoError(t, annotate("null", "null"))
	requireDenied(t, change(d), "the edit of data.color of configmap/exempt")
}

// denyLetsANamespaceGo deletes a namespace with objects of a VidraResource, then that: the namespace controller,
// the garbage collector and Vidra are not refused.
func denyLetsANamespaceGo(t *testing.T) {
	namespace := cluster.NewNamespace(t)
	v := cluster.NewVidraResource(t, namespace, suite.Manifests(suite.Greeting("page", "hello"), workload("Deployment", "web", "  replicas: 1")))
	cluster.AwaitReady(t, v.Name)
	d, _ := as(t, alice)
	_, err := d.Resource(deployments).Namespace(namespace).Patch(t.Context(), "web", "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"note":"mine"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	suite.Await(t, func(c *assert.CollectT) { // the controllers work on it
		replicas, err := d.Resource(deployments.GroupVersion().WithResource("replicasets")).Namespace(namespace).List(context.Background(), metav1.ListOptions{})
		require.NoError(c, err)
		require.Len(c, replicas.Items, 1)
	})
	requireDenied(t, d.Resource(deployments).Namespace(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}), "the deletion of deployment/web")
	cluster.SetManifest(t, v.Name, suite.Greeting("page", "hello"))
	cluster.AwaitGone(t, deployment(namespace, "web"))
	require.NoError(t, d.Resource(namespaces).Delete(t.Context(), namespace, metav1.DeleteOptions{}))
	cluster.AwaitGone(t, named("v1", "Namespace", "", namespace))
}

// deployment is a Deployment by its name.
func deployment(namespace, name string) client.Object {
	return named("apps/v1", "Deployment", namespace, name)
}

// named is an object by its name.
func named(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}
