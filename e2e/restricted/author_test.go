package restricted

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestAuthorWorks: a user who may impersonate an account of a namespace that is set up writes,
// changes, annotates and deletes VidraResources with it, also large ones; Vidra heals.
func TestAuthorWorks(t *testing.T) {
	t.Parallel()
	mine := newTeam(t, "mine")
	v := mine.create(t, mine.resource("page"))
	awaitReady(t, v.Name)
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: mine.namespace, Name: "page"}}
	require.NoError(t, patch(admin, page, `{"data":{"greeting":"mine"}}`))
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello", mine.says(c, "page")) })
	await(t, func(c *assert.CollectT) { require.NotNil(c, getVidraResource(c, v.Name).Status.Drift) }, "Vidra writes the status")

	large := configMap("page", "changed") + "# " + strings.Repeat("x", 1_000_000)
	require.NoError(t, patch(mine.person, v, `{"spec":{"manifest":%q}}`, large))
	require.NoError(t, patch(mine.person, v, `{"spec":{"manifest":%q}}`, large+"y"), "two large manifests are compared")
	await(t, func(c *assert.CollectT) { require.Equal(c, "changed", mine.says(c, "page")) })
	require.NoError(t, patch(mine.person, v, `{"metadata":{"annotations":{"a":"b"},"labels":{"a":"b"}}}`))
	require.NoError(t, mine.person.Delete(t.Context(), v))
	await(t, func(c *assert.CollectT) {
		require.Empty(c, mine.says(c, "page"))
		require.NoError(c, client.IgnoreNotFound(admin.Get(context.Background(), client.ObjectKeyFromObject(v), v)))
		require.NotEmpty(c, v.Name)
	}, "what was applied is gone")
}

// TestAuthorNeedsTheAccount has a person of one team try everything with a VidraResource that
// has, or gets, the account of another team, to which they have no right.
func TestAuthorNeedsTheAccount(t *testing.T) {
	t.Parallel()
	mine, theirs := newTeam(t, "mine"), newTeam(t, "theirs")
	own := mine.create(t, mine.resource("own"))
	v := theirs.create(t, theirs.resource("page"))
	awaitReady(t, v.Name)
	says := "impersonate"

	stolen := theirs.resource("stolen")
	requireForbidden(t, mine.person.Create(t.Context(), stolen), says, theirs.namespace+"/"+account)
	without := mine.resource("without")
	without.Spec.ServiceAccountName = ""
	requireForbidden(t, mine.person.Create(t.Context(), without), "spec.serviceAccountName is missing")
	generated := theirs.resource("generated")
	generated.Name, generated.GenerateName = "", "generated-"
	requireForbidden(t, mine.person.Create(t.Context(), generated), says)

	attempts := map[string]func() error{
		"the manifest": func() error { return patch(mine.person, v, `{"spec":{"manifest":%q}}`, configMap("page", "mine")) },
		"a source": func() error {
			return patch(mine.person, v, `{"spec":{"manifestFrom":[{"kind":"Secret","name":"s","key":"k"}]}}`)
		},
		"the deletion policy":      func() error { return patch(mine.person, v, `{"spec":{"deletionPolicy":"Orphan"}}`) },
		"the suspension":           func() error { return patch(mine.person, v, `{"spec":{"suspend":true}}`) },
		"the interval":             func() error { return patch(mine.person, v, `{"spec":{"interval":"1h"}}`) },
		"the drift policy":         func() error { return patch(mine.person, v, `{"spec":{"drift":{"mode":"Ignore"}}}`) },
		"the account, cleared":     func() error { return patch(mine.person, v, `{"spec":{"serviceAccountName":null}}`) },
		"the account, another one": func() error { return patch(mine.person, v, `{"spec":{"serviceAccountName":"default"}}`) },
		"the account and namespace, mine": func() error {
			return patch(mine.person, v, `{"spec":{"destination":{"namespace":%q}}}`, mine.namespace)
		},
		"the shard": func() error {
			return patch(mine.person, v, `{"metadata":{"labels":{"sharding.fluxcd.io/key":"none"}}}`)
		},
		"the installation": func() error {
			return patch(mine.person, v, `{"metadata":{"labels":{%q:"none"}}}`, v1alpha1.InstallationLabel)
		},
		"the finalizers": func() error { return patch(mine.person, v, `{"metadata":{"finalizers":null}}`) },
		"the owners": func() error {
			return patch(mine.person, v, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"gone","uid":"8c9e1b7e-0d8c-4f43-9c8e-000000000000"}]}}`)
		},
		"all of it": func() error {
			live := getVidraResource(t, v.Name)
			live.Spec.Manifest = configMap("page", "mine")
			return mine.person.Update(context.Background(), live)
		},
		"its existence": func() error { return mine.person.Delete(context.Background(), v.DeepCopy()) },
	}
	for what, attempt := range attempts {
		t.Run(what, func(t *testing.T) { requireForbidden(t, attempt(), says, theirs.namespace+"/"+account) })
	}
	// Nor may their VidraResource take the account of the other team over.
	requireForbidden(t, patch(mine.person, own, `{"spec":{"destination":{"namespace":%q}}}`, theirs.namespace), says, theirs.namespace+"/"+account)
	requireForbidden(t, patch(mine.person, own, `{"spec":{"serviceAccountName":null}}`), "spec.serviceAccountName is missing")
	require.NoError(t, patch(mine.person, v, `{"metadata":{"annotations":{"note":"mine"},"labels":{"note":"mine"}}}`), "these stay free")
	require.NoError(t, mine.person.Get(t.Context(), client.ObjectKeyFromObject(v), v), "authors read all VidraResources")
	require.NotEmpty(t, v.Spec.Manifest)
	require.Equal(t, "hello", theirs.says(t, "page"))
}

// TestStatusNeedsTheAccount has a person who may write the status of every VidraResource, as
// some monitoring tools ask for, change what is to be pruned.
func TestStatusNeedsTheAccount(t *testing.T) {
	t.Parallel()
	mine, theirs := newTeam(t, "mine"), newTeam(t, "theirs")
	v := theirs.create(t, theirs.resource("page"))
	awaitReady(t, v.Name)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: mine.user + "-status"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"vidraresources/status"}, Verbs: []string{"patch"},
		}},
	}
	require.NoError(t, admin.Create(t.Context(), role))
	bind(t, "", "ClusterRole", role.Name, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: mine.user})
	await(t, func(c *assert.CollectT) {
		requireForbidden(c, patchStatus(mine.person, v, `{"status":{"managedResources":[]}}`), "impersonate", theirs.namespace+"/"+account)
	})
	own := mine.create(t, mine.resource("own"))
	require.NoError(t, patchStatus(mine.person, own, `{"status":{"lastError":"x"}}`), "of their own they may")
}

// TestDestinationNeedsTheRight creates VidraResources for other clusters: each needs the verb
// use on its URL, letter by letter. That of the cluster itself the role of authors has.
func TestDestinationNeedsTheRight(t *testing.T) {
	t.Parallel()
	mine, theirs := newTeam(t, "mine"), newTeam(t, "theirs")
	const server = "https://clusters.example.com/k8s/c-1"
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: mine.namespace + "-use"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"destinations"}, ResourceNames: []string{server}, Verbs: []string{"use"},
		}},
	}
	require.NoError(t, admin.Create(t.Context(), role))
	bind(t, "", "ClusterRole", role.Name, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: mine.user})
	at := func(m team, name, server string) *v1alpha1.VidraResource {
		v := m.resource(name)
		v.Spec.Destination.Server = server
		return v
	}
	granted := mine.create(t, at(mine, "granted", server))
	mine.create(t, at(mine, "here", v1alpha1.LocalServer))
	for name, other := range map[string]string{
		"path": "https://clusters.example.com/k8s/c-2", "host": "https://clusters.example.com", "slash": server + "/",
		"port": "https://clusters.example.com:443/k8s/c-1", "scheme": "http://clusters.example.com/k8s/c-1", "none": "x",
	} {
		requireForbidden(t, mine.person.Create(t.Context(), at(mine, name, other)), "may not use the destination "+other)
	}
	theirs.create(t, theirs.resource("here")) // their rights count by now
	requireForbidden(t, theirs.person.Create(t.Context(), at(theirs, "there", server)), "may not use the destination "+server)
	require.NoError(t, admin.Delete(t.Context(), granted))
}

// TestRightsOnOneAccount: who may impersonate one account of a namespace only, may name that
// one and no other.
func TestRightsOnOneAccount(t *testing.T) {
	t.Parallel()
	mine, theirs := newTeam(t, "mine"), newTeam(t, "theirs")
	require.NoError(t, admin.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: theirs.namespace, Name: "as-deployer"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{account}, Verbs: []string{"impersonate"},
		}},
	}))
	bind(t, theirs.namespace, "Role", "as-deployer", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: mine.user})
	guest := team{namespace: theirs.namespace, user: mine.user, person: mine.person}
	v := guest.create(t, guest.resource("guest"))
	requireForbidden(t, patch(mine.person, v, `{"spec":{"serviceAccountName":"default"}}`), theirs.namespace+"/default")
	requireForbidden(t, patch(mine.person, v, `{"spec":{"serviceAccountName":""}}`), "spec.serviceAccountName is missing")
}

// TestNestedAuthorNeedsTheAccount: a VidraResource in the manifest of another one is written by
// the account of that, which needs the rights of an author.
func TestNestedAuthorNeedsTheAccount(t *testing.T) {
	t.Parallel()
	mine, theirs := newTeam(t, "mine"), newTeam(t, "theirs")
	bind(t, "", "ClusterRole", editorRole, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: mine.namespace, Name: account})
	inner := theirs.namespace + "-inner"
	v := mine.resource("outer")
	v.Spec.Manifest = "apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata: {name: " + inner + "}\nspec:\n" +
		"  destination: {namespace: " + theirs.namespace + "}\n  serviceAccountName: " + account + "\n  manifest: 'a'\n"
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + mine.namespace + ":" + account}
	asAccount, err := testenv.Client(config)
	require.NoError(t, err)
	await(t, func(c *assert.CollectT) { // the API server compiles a new policy first
		denied := asAccount.Create(t.Context(), theirs.resource("probe"), client.DryRunAll)
		require.True(c, apierrors.IsForbidden(denied), "%v", denied)
	})
	mine.create(t, v)
	awaitNotReady(t, v.Name, v1alpha1.ReasonApplyFailed, "this needs the right to impersonate it")
	err = admin.Get(t.Context(), client.ObjectKey{Name: inner}, &v1alpha1.VidraResource{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}
