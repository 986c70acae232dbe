package e2e

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The tests of this file run several operators, so none of them is parallel: see the
// variable operator.

const (
	// east is the installation of config/installation, and eastern its namespace.
	east    = v1alpha1.Installation("east")
	eastern = "vidra-east"
)

// startIn starts an operator of config/installation, with its rights. It is stopped when
// the test ends.
func startIn(t *testing.T, args ...string) *testenv.Operator {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: eastern}}
	// Other tests make the namespace alone.
	before := admin.Get(t.Context(), client.ObjectKey{Name: "vidra-operator-east"}, &rbacv1.ClusterRole{})
	installed, err := env.InstallFrom(t.Context(), "installation")
	require.NoError(t, err)
	t.Cleanup(func() {
		if before == nil || !suite.Deployed() {
			return // an operator that the test started before runs there, or the control plane ends with the tests
		}
		for _, obj := range installed {
			if obj.GetNamespace() == "" && strings.HasSuffix(obj.GetName(), "-"+string(east)) {
				require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), obj)))
			}
		}
		awaitGoneFor(t, 2*patience, namespace)
	})
	started, err := env.StartOperator(context.Background(), testenv.OperatorOptions{
		Binary: operatorBinary, Namespace: eastern, ServiceAccount: "vidra-operator-east", Args: args,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, started.Stop(stopTimeout)) })
	return started
}

// startEast starts the operator of the installation east.
func startEast(t *testing.T) { startIn(t, "--installation="+string(east)) }

// of gives a VidraResource to an installation.
func of(installation v1alpha1.Installation) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) {
		v.Labels = map[string]string{v1alpha1.InstallationLabel: string(installation)}
	}
}

// requireOwners requires that exactly these installations own a ConfigMap for the
// VidraResource of a name each, and that it has their annotations.
func requireOwners(t require.TestingT, page client.Object, owners map[string]v1alpha1.Installation) {
	live := get(t, page)
	var managers, annotations []string
	for name, installation := range owners {
		managers = append(managers, installation.FieldManager(name))
		annotations = append(annotations, installation.OwnerAnnotationKey(name))
	}
	require.ElementsMatch(t, managers, appliedBy(live))
	var found []string
	for key := range live.GetAnnotations() {
		if v1alpha1.IsOwnerAnnotation(key) {
			found = append(found, key)
		}
	}
	require.ElementsMatch(t, annotations, found)
}

// awaitSays waits until a ConfigMap has a greeting.
func awaitSays(t *testing.T, page client.Object, want string) {
	t.Helper()
	await(t, func(c *assert.CollectT) { require.Equal(c, want, greeting(c, page)) })
}

// TestTwoInstallations runs two installations on one cluster. Each applies, heals and removes
// the objects of its VidraResources, and writes nothing of the other one.
func TestTwoInstallations(t *testing.T) {
	ns := newNamespace(t)
	startEast(t)
	mark := auditMark(t)
	theirs, ours := ns+"-east", ns
	first := newVidraResource(t, ns, configMap("page", "hello"))
	second := newVidraResource(t, ns, configMap("eastern", "hello"), named(theirs), of(east))
	page, theirPage := declared(t, ns, configMap("page", "hello"))[0], declared(t, ns, configMap("eastern", "hello"))[0]
	awaitReady(t, ours)
	awaitReady(t, theirs)
	requireOwners(t, page, map[string]v1alpha1.Installation{ours: ""})
	requireOwners(t, theirPage, map[string]v1alpha1.Installation{theirs: east})
	require.Equal(t, []string{east.Finalizer()}, getVidraResource(t, theirs).Finalizers)
	for _, obj := range []client.Object{page, theirPage} {
		require.NoError(t, mergePatch(obj, `{"data":{"greeting":"mine"}}`))
	}
	awaitSays(t, page, "hello")
	awaitSays(t, theirPage, "hello")

	require.NoError(t, deleteVidraResource(t.Context(), ours))
	awaitGone(t, first)
	awaitGone(t, page)
	require.NoError(t, deleteVidraResource(t.Context(), theirs))
	awaitGone(t, second)
	awaitGone(t, theirPage)
	foreign := operatorSince(t, mark).Writes().Only(func(e request) bool {
		return slices.Contains([]string{theirs, theirPage.GetName()}, e.Name)
	})
	require.Empty(t, foreign, "the default installation leaves the VidraResource of the other one alone, and its objects")
}

// TestObjectOfTwoInstallations has VidraResources of two installations name the same objects.
// They own together what they agree on, the later one is refused otherwise, and what one of
// them removes stays for the other one.
func TestObjectOfTwoInstallations(t *testing.T) {
	ns := newNamespace(t)
	startEast(t)
	theirs, ours := ns+"-east", ns
	page, other := declared(t, ns, configMap("page", "hello"))[0], declared(t, ns, configMap("other", "hello"))[0]
	manifest := manifests(configMap("page", "hello"), configMap("other", "hello"))
	first := newVidraResource(t, ns, manifest)
	awaitReady(t, ours)
	newVidraResource(t, ns, manifest, named(theirs), of(east))
	awaitReady(t, theirs)
	requireOwners(t, page, map[string]v1alpha1.Installation{ours: "", theirs: east})
	uid := get(t, page).GetUID()

	setManifest(t, theirs, manifests(configMap("page", "eastern"), configMap("other", "hello")))
	awaitNotReady(t, theirs, v1alpha1.ReasonOwnershipConflict, "VidraResource "+ours, "data.greeting")
	require.Equal(t, "hello", greeting(t, page))
	awaitReady(t, ours)
	setManifest(t, theirs, manifest)
	awaitReady(t, theirs)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitSays(t, page, "hello")
	awaitReady(t, ours)
	awaitReady(t, theirs)

	setManifest(t, theirs, configMap("page", "hello")) // the other object is pruned there
	await(t, func(c *assert.CollectT) { requireOwners(c, other, map[string]v1alpha1.Installation{ours: ""}) })
	require.NoError(t, deleteVidraResource(t.Context(), ours))
	awaitGone(t, first)
	awaitGone(t, other)
	requireOwners(t, page, map[string]v1alpha1.Installation{theirs: east})
	require.Equal(t, uid, get(t, page).GetUID(), "it was never deleted")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitSays(t, page, "hello")
	require.NoError(t, deleteVidraResource(t.Context(), theirs))
	awaitGone(t, page)
}

// TestVidraResourceChangesTheInstallation gives a VidraResource to another installation, and
// to one that does not exist. Its objects stay.
func TestVidraResourceChangesTheInstallation(t *testing.T) {
	ns := newNamespace(t)
	startEast(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	page := declared(t, ns, configMap("page", "hello"))[0]
	awaitReady(t, ns)
	uid := get(t, page).GetUID()
	relabel := func(installation string) {
		require.NoError(t, mergePatch(getVidraResource(t, ns), `{"metadata":{"labels":{%q:%s}}}`, v1alpha1.InstallationLabel, installation))
	}
	relabel(`"east"`)
	await(t, func(c *assert.CollectT) {
		requireOwners(c, page, map[string]v1alpha1.Installation{ns: east})
		require.Equal(c, []string{east.Finalizer()}, getVidraResource(c, ns).Finalizers)
	})
	awaitReady(t, ns)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitSays(t, page, "hello")

	relabel(`"none"`)
	await(t, func(c *assert.CollectT) {
		require.Empty(c, getVidraResource(c, ns).Finalizers)
		requireOwners(c, page, nil)
		require.NotContains(c, get(c, page).GetLabels(), v1alpha1.ManagedByLabel)
	}, "it is unmanaged")
	relabel("null")
	await(t, func(c *assert.CollectT) { requireOwners(c, page, map[string]v1alpha1.Installation{ns: ""}) })
	awaitReady(t, ns)
	require.Equal(t, uid, get(t, page).GetUID(), "it was never deleted")
}

// TestDeletedAfterAChangeOfTheInstallation deletes a VidraResource that has another installation now, and that the former one is still to release: that
// removes the objects. It is not parallel: it stops the operator.
func TestDeletedAfterAChangeOfTheInstallation(t *testing.T) {
	ns := newNamespace(t)
	v := newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	stopOperator(t)
	require.NoError(t, mergePatch(getVidraResource(t, ns), `{"metadata":{"labels":{%q:"east"}}}`, v1alpha1.InstallationLabel))
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	startOperator(t)
	awaitGone(t, declared(t, ns, configMap("page", "hello"))[0])
	awaitGone(t, v)
}

// TestVidraResourceOfAnInstallationThatIsAway has a VidraResource wait that another
// installation has not released. It says which one, and what to do.
func TestVidraResourceOfAnInstallationThatIsAway(t *testing.T) {
	ns := newNamespace(t)
	west := v1alpha1.Installation("west")
	newVidraResource(t, ns, configMap("page", "hello"), func(v *v1alpha1.VidraResource) { v.Finalizers = []string{west.Finalizer()} })
	page := declared(t, ns, configMap("page", "hello"))[0]
	v := awaitNotReady(t, ns, v1alpha1.ReasonProgressing, `installation "west" has released`, west.Finalizer())
	require.Equal(t, []string{west.Finalizer()}, v.Finalizers)
	require.NoError(t, mergePatch(v, `{"metadata":{"finalizers":null}}`))
	awaitReady(t, ns)
	requireOwners(t, page, map[string]v1alpha1.Installation{ns: ""})
}

// TestForgedOwnerOfANamedInstallation forges a field manager of a third installation, which
// the operators of a named one cannot distinguish from a true one. The edit is reverted, and the
// object is left to the forged owner rather than deleted.
func TestForgedOwnerOfANamedInstallation(t *testing.T) {
	ns := newNamespace(t)
	startEast(t)
	v := newVidraResource(t, ns, configMap("page", "hello"), of(east))
	awaitReady(t, ns)
	page := declared(t, ns, configMap("page", "hello"))[0]
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"page"},"data":{"greeting":"mine","theirs":"here"}}`
	manager := v1alpha1.Installation("west").FieldManager(ns)
	require.NoError(t, edit(page, types.ApplyPatchType, body, client.ForceOwnership, client.FieldOwner(manager)))
	awaitSays(t, page, "hello")
	awaitReady(t, ns)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	live := get(t, page)
	require.Equal(t, []string{manager}, appliedBy(live))
	require.NotContains(t, live.GetAnnotations(), east.OwnerAnnotationKey(ns))
}

// TestTwoLeadersOfOneInstallation starts operators that elect a leader in two namespaces. The
// second one of an installation does not lead until the first one has ended, and says why; one
// of another installation does.
func TestTwoLeadersOfOneInstallation(t *testing.T) {
	stopOperator(t)
	first, err := env.StartOperator(context.Background(), testenv.OperatorOptions{Binary: operatorBinary, Args: electing()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = first.Kill() })
	awaitLeads(t, first)
	second := startIn(t, "--leader-elect=true")
	await(t, func(c *assert.CollectT) {
		printed, err := os.ReadFile(second.Log)
		require.NoError(c, err)
		require.Contains(c, string(printed), "this operator does not lead")
		for _, part := range []string{`installation \"default\"`, leaseName.Namespace, holder(c), leaseName.Name, "--installation=NAME"} {
			require.Contains(c, string(printed), part)
		}
	})
	require.False(t, leads(t, second))
	awaitLeads(t, startIn(t, "--leader-elect=true", "--installation=east"))
	require.NoError(t, first.Stop(stopTimeout))
	awaitLeads(t, second)
}
