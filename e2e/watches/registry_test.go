package watches

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

func TestWatchIsSharedUntilItsLastOwnerHasLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{linger: 3 * time.Second}) // what is done meanwhile may take a while
	one, two := owner("one"), owner("two")
	cm := l.configMap(t, "ours")
	other := newLab(t, labOptions{}).configMap(t, "foreign")

	statuses := l.Sync(one, []watchregistry.Key{configMaps})
	require.Equal(t, watchregistry.Starting, statuses[configMaps].State, "Sync does not wait")
	l.becomes(t, configMaps, watchregistry.Synced)
	require.True(t, l.knows(configMaps, cm), "Synced means that the handler has seen every object")
	require.False(t, l.knows(configMaps, other), "the label filters on the server")
	kept, found, synced := l.Get(configMaps, cm.Namespace, cm.Name)
	require.True(t, found && synced)
	require.IsType(t, &metav1.PartialObjectMetadata{}, kept, "the transform decides what is kept")

	statuses = l.Sync(two, []watchregistry.Key{configMaps, secrets})
	require.Equal(t, watchregistry.Synced, statuses[configMaps].State, "the second owner finds the watch running")
	require.Equal(t, []watchregistry.Owner{one, two}, l.watch(configMaps).Owners)

	l.Sync(two, []watchregistry.Key{secrets})
	l.Release(one)
	require.Empty(t, l.watch(configMaps).Owners)
	require.Equal(t, watchregistry.Draining, l.watch(configMaps).State)
	_, _, synced = l.Get(configMaps, cm.Namespace, cm.Name)
	require.True(t, synced, "it works on while it lingers")
	l.Sync(one, []watchregistry.Key{configMaps})
	require.Equal(t, watchregistry.Synced, l.watch(configMaps).State)
	require.EqualValues(t, 1, l.watch(configMaps).InformerRuns, "who comes back while the watch lingers finds it running")
	l.Release(one)
	await(t, func(c *assert.CollectT) {
		assert.Equal(c, watchregistry.Watch{}, l.watch(configMaps), "no owner needs it any more")
	})
	require.NotEmpty(t, l.watch(secrets).Owners, "the other watch is not disturbed")
	require.Equal(t, []watchregistry.State{watchregistry.Synced}, l.states("one", configMaps), "once for each change, and not of its own leaving")
}

// TestFailedPassKeepsTheOldSet adds watches in the first of two phases, which
// takes none away.
func TestFailedPassKeepsTheOldSet(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{linger: -1})
	one := owner("one")
	l.Sync(one, []watchregistry.Key{configMaps})
	statuses := l.Ensure(one, []watchregistry.Key{secrets})
	require.Len(t, statuses, 1, "the states of what was asked for")
	require.Equal(t, []watchregistry.Owner{one}, l.watch(configMaps).Owners, "the pass has not succeeded yet")
	require.Equal(t, []watchregistry.Owner{one}, l.watch(secrets).Owners)
	l.Sync(one, []watchregistry.Key{secrets})
	require.Empty(t, l.watch(configMaps), "now it has")
	require.Equal(t, []watchregistry.Owner{one}, l.watch(secrets).Owners)
}

// TestF16LostLabelIsADeletion removes the label that the watch selects by. The API
// server reports that as a deletion, as it must be: no watch sees the object any more,
// while it lives on.
func TestF16LostLabelIsADeletion(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	l.Sync(owner("one"), []watchregistry.Key{configMaps})
	l.becomes(t, configMaps, watchregistry.Synced)

	cm := l.configMap(t, "one")
	await(t, func(c *assert.CollectT) { assert.True(c, l.knows(configMaps, cm)) })
	cm.Labels = nil
	require.NoError(t, admin.Update(t.Context(), cm))
	await(t, func(c *assert.CollectT) {
		deleted, _ := l.gone(configMaps, cm)
		assert.Equal(c, 1, deleted)
	})
}

// TestKindComesAndGoes watches a kind before it is there, while it is there, and
// when it comes back.
func TestKindComesAndGoes(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	crd := testenv.CRD(unique(t))
	key := keyOf(crd)
	gvk := key.GVR.GroupVersion().WithKind(crd.Spec.Names.Kind)

	l.Sync(owner("one"), []watchregistry.Key{key, configMaps})
	l.Await(owner("one"), []watchregistry.Kind{{GVK: gvk}})
	l.becomes(t, key, watchregistry.Pending)
	l.becomes(t, configMaps, watchregistry.Synced)
	require.Equal(t, watchregistry.ReasonNotFound, l.watch(key).Reason)

	createCRD(t, crd)
	t.Cleanup(func() { _ = admin.Delete(context.Background(), crd) })
	l.becomes(t, key, watchregistry.Synced)
	await(t, func(c *assert.CollectT) {
		assert.Equal(c, []schema.GroupVersionKind{gvk}, l.kinds("one"), "who waits for a kind is told once")
	})
	thing := l.thing(t, crd, "here")
	await(t, func(c *assert.CollectT) { assert.True(c, l.knows(key, thing)) })

	require.NoError(t, admin.Delete(t.Context(), crd))
	l.becomes(t, key, watchregistry.Pending)
	createCRD(t, crd)
	l.becomes(t, key, watchregistry.Synced)
	await(t, func(c *assert.CollectT) { // the deletion may be found by the LIST of the new watch
		deleted, _ := l.gone(key, thing)
		assert.Equal(c, 1, deleted, "it went with its kind")
	})
	require.EqualValues(t, 1, l.watch(configMaps).InformerRuns, "another kind's watch is not disturbed")
	await(t, func(c *assert.CollectT) {
		assert.Equal(c, []watchregistry.State{
			watchregistry.Pending, watchregistry.Starting, watchregistry.Synced,
			watchregistry.Pending, watchregistry.Starting, watchregistry.Synced,
		}, l.states("one", key), "the owner learns of every change once, in order")
	})
}

// TestForbidden watches what a role allows only later.
func TestForbidden(t *testing.T) {
	t.Parallel()
	name := unique(t)
	config, err := env.UserConfig(name)
	require.NoError(t, err)
	l := newLab(t, labOptions{config: config})
	l.Sync(owner("one"), []watchregistry.Key{configMaps})
	l.becomes(t, configMaps, watchregistry.Degraded)
	status := l.watch(configMaps).Status
	require.Equal(t, watchregistry.ReasonForbidden, status.Reason)
	require.Contains(t, status.Message, name, "the API server's error says who may not do what")
	_, _, synced := l.Get(configMaps, "default", "any")
	require.False(t, synced)
	allow(t, name, "configmaps")
	l.becomes(t, configMaps, watchregistry.Synced)
	await(t, func(c *assert.CollectT) {
		states := l.states("one", configMaps)
		assert.NotEmpty(c, states)
		assert.Equal(c, watchregistry.Degraded, states[0])
		assert.Equal(c, watchregistry.Synced, states[len(states)-1])
	})
}

// allow lets a user list and watch resources of the core group.
func allow(t *testing.T, user string, resources ...string) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: resources, Verbs: []string{"list", "watch"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	require.NoError(t, admin.Create(t.Context(), role))
	require.NoError(t, admin.Create(t.Context(), binding))
	t.Cleanup(func() {
		_ = admin.Delete(context.Background(), binding)
		_ = admin.Delete(context.Background(), role)
	})
}

// TestWatchesOfNamespaces watches one kind in two namespaces and in all of them. Each watch has the
// objects of its own namespaces, and asks for those alone.
func TestWatchesOfNamespaces(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{linger: -1})
	cm := l.configMap(t, "ours")
	in := func(namespace string) watchregistry.Key {
		return watchregistry.Key{GVR: configMaps.GVR, Namespace: namespace}
	}
	here, there := in(cm.Namespace), in(metav1.NamespaceSystem)
	mark := l.Mark()
	l.Sync(owner("one"), []watchregistry.Key{here, there})
	l.synced(t, []watchregistry.Key{here, there})
	_, found, _ := l.Get(here, cm.Namespace, cm.Name)
	require.True(t, found)
	objs, synced := l.List(there)
	require.True(t, synced)
	require.Empty(t, objs)
	for _, q := range l.Requests(mark, faultproxy.Match{Resource: configMaps.GVR}) {
		require.Contains(t, []string{here.Namespace, there.Namespace}, q.Namespace, q.Path)
	}
	require.Equal(t, "configmaps.v1 in namespace "+here.Namespace, l.watch(here).Key.String())

	l.Sync(owner("two"), []watchregistry.Key{configMaps})
	l.synced(t, []watchregistry.Key{configMaps})
	l.Release(owner("one"))
	require.Equal(t, watchregistry.Watch{}, l.watch(here))
	_, found, _ = l.Get(configMaps, cm.Namespace, cm.Name)
	require.True(t, found, "the watch of all namespaces is another one")
}
