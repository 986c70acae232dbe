package e2e

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

var (
	configMapsV1 = watchregistry.Key{GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}
	secretsV1    = watchregistry.Key{GVR: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}}
)

// watcher is a registry of its own, with what it reported.
type watcher struct {
	*watchregistry.Registry

	mu sync.Mutex
	// seen are the objects that a handler has and has not seen deleted.
	seen map[string]struct{}
	// told are the states that owners were told, in order.
	told map[watchregistry.Owner][]watchregistry.State
	// arrived are the kinds that owners were told to have come.
	arrived map[watchregistry.Owner][]watchregistry.Kind
}

// newWatcher starts a registry that watches what has the label test=value.
func newWatcher(t *testing.T, config *rest.Config, value string, linger time.Duration) *watcher {
	t.Helper()
	w := &watcher{
		seen:    map[string]struct{}{},
		told:    map[watchregistry.Owner][]watchregistry.State{},
		arrived: map[watchregistry.Owner][]watchregistry.Kind{},
	}
	note := func(change func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		change()
	}
	w.Registry = watchregistry.New(watchregistry.Options{
		LabelSelector: "test=" + value,
		Linger:        linger,
		HandlerFor: func(_ string, gvr schema.GroupVersionResource) cache.ResourceEventHandler {
			key := func(obj any) string {
				key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
				if err != nil {
					t.Error(err) // not the goroutine of the test, which alone may end it
				}
				return gvr.Resource + " " + key
			}
			return cache.ResourceEventHandlerFuncs{
				AddFunc:    func(obj any) { note(func() { w.seen[key(obj)] = struct{}{} }) },
				DeleteFunc: func(obj any) { note(func() { delete(w.seen, key(obj)) }) },
			}
		},
		// What is kept has the metadata only.
		TransformFor: func(string, schema.GroupVersionResource) cache.TransformFunc {
			return func(obj any) (any, error) {
				u, ok := obj.(*unstructured.Unstructured)
				if !ok {
					return obj, nil
				}
				return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace()}}, nil
			}
		},
		OnWatch: func(owner watchregistry.Owner, _ watchregistry.Key, status watchregistry.Status) {
			note(func() { w.told[owner] = append(w.told[owner], status.State) })
		},
		OnKind: func(owner watchregistry.Owner, kind watchregistry.Kind) {
			note(func() { w.arrived[owner] = append(w.arrived[owner], kind) })
		},
	})
	local, err := cluster.New(config)
	require.NoError(t, err)
	w.AddCluster("", local)
	t.Cleanup(w.Stop)
	return w
}

// status is the state of a watch; none if there is no such watch.
func (w *watcher) status(key watchregistry.Key) watchregistry.Watch {
	for _, watch := range w.Watches() {
		if watch.Key == key {
			return watch
		}
	}
	return watchregistry.Watch{}
}

// becomes waits until a watch is in a state.
func (w *watcher) becomes(t *testing.T, key watchregistry.Key, state watchregistry.State) {
	t.Helper()
	await(t, func(c *assert.CollectT) { assert.Equal(c, state, w.status(key).Status.State) })
}

func (w *watcher) has(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, seen := w.seen[name]
	return seen
}

// labelled makes a ConfigMap with the label test=value.
func labelled(t *testing.T, name, value string) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"test": value}}}
	require.NoError(t, admin.Create(t.Context(), cm))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), cm) })
	return cm
}

func TestRegistrySharesAWatchUntilItsLastOwnerHasLeft(t *testing.T) {
	t.Parallel()
	name := unique(t)
	w := newWatcher(t, env.Config, name, 200*time.Millisecond)
	one, two := watchregistry.Owner{Name: "one"}, watchregistry.Owner{Name: "two"}
	labelled(t, name, name)
	labelled(t, name+"-foreign", "foreign")

	statuses := w.Sync(one, []watchregistry.Key{configMapsV1})
	require.Equal(t, watchregistry.Starting, statuses[configMapsV1].State, "Sync does not wait")
	w.becomes(t, configMapsV1, watchregistry.Synced)
	require.True(t, w.has("configmaps default/"+name), "Synced means that the handler has seen every object")
	require.False(t, w.has("configmaps default/"+name+"-foreign"), "the label filters on the server")
	kept, found, synced := w.Get(configMapsV1, "default", name)
	require.True(t, found && synced)
	require.IsType(t, &metav1.PartialObjectMetadata{}, kept, "the transform decides what is kept")

	statuses = w.Sync(two, []watchregistry.Key{configMapsV1, secretsV1})
	require.Equal(t, watchregistry.Synced, statuses[configMapsV1].State, "the second owner finds the watch running")
	require.Equal(t, []watchregistry.Owner{one, two}, w.status(configMapsV1).Owners)

	w.Sync(two, []watchregistry.Key{secretsV1})
	w.Release(one)
	require.Empty(t, w.status(configMapsV1).Owners)
	w.Sync(one, []watchregistry.Key{configMapsV1})
	require.EqualValues(t, 1, w.status(configMapsV1).Incarnation, "who comes back while the watch lingers finds it running")
	w.Release(one)
	await(t, func(c *assert.CollectT) {
		assert.Equal(c, watchregistry.Watch{}, w.status(configMapsV1), "nobody needs it any more")
	})
	require.NotEmpty(t, w.status(secretsV1).Owners, "the other watch is not disturbed")
}

func TestRegistryFollowsChanges(t *testing.T) {
	t.Parallel()
	name := unique(t)
	w := newWatcher(t, env.Config, name, 0)
	w.Sync(watchregistry.Owner{Name: "one"}, []watchregistry.Key{configMapsV1})
	w.becomes(t, configMapsV1, watchregistry.Synced)

	cm := labelled(t, name, name)
	await(t, func(c *assert.CollectT) { assert.True(c, w.has("configmaps default/"+name)) })
	cm.Labels = nil
	require.NoError(t, admin.Update(t.Context(), cm))
	await(t, func(c *assert.CollectT) {
		assert.False(c, w.has("configmaps default/"+name), "an object that loses the label is reported as deleted")
	})
}

func TestRegistryFollowsAKindThatComesAndGoes(t *testing.T) {
	t.Parallel()
	w := newWatcher(t, env.Config, "kinds", 0)
	owner := watchregistry.Owner{Name: "one"}
	crd := newCRD(unique(t))
	gvr := schema.GroupVersionResource{Group: crd.Spec.Group, Version: "v1", Resource: crd.Spec.Names.Plural}
	gvk := gvr.GroupVersion().WithKind(crd.Spec.Names.Kind)
	key := watchregistry.Key{GVR: gvr}

	w.Sync(owner, []watchregistry.Key{key, configMapsV1})
	w.Await(owner, []watchregistry.Kind{{GVK: gvk}})
	w.becomes(t, key, watchregistry.Pending)
	w.becomes(t, configMapsV1, watchregistry.Synced)
	require.Equal(t, watchregistry.ReasonNotFound, w.status(key).Status.Reason)

	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), crd) })
	w.becomes(t, key, watchregistry.Synced)
	await(t, func(c *assert.CollectT) {
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.Equal(c, []watchregistry.Kind{{GVK: gvk}}, w.arrived[owner], "who waits for a kind is told once")
	})
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	object.SetNamespace("default")
	object.SetName("here")
	object.SetLabels(map[string]string{"test": "kinds"})
	require.NoError(t, admin.Create(t.Context(), object))
	await(t, func(c *assert.CollectT) { assert.True(c, w.has(gvr.Resource+" default/here")) })

	require.NoError(t, admin.Delete(t.Context(), crd))
	w.becomes(t, key, watchregistry.Pending)
	await(t, func(c *assert.CollectT) {
		assert.NoError(c, admin.Create(context.Background(), crd.DeepCopy()), "the old one is gone")
	})
	back := time.Now()
	w.becomes(t, key, watchregistry.Synced)
	t.Logf("synced %s after the kind was created again", time.Since(back).Round(time.Millisecond))
	require.EqualValues(t, 1, w.status(configMapsV1).Incarnation, "another kind's watch is not disturbed")
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Contains(t, w.told[owner], watchregistry.Pending, "the owner learns that the kind went")
}

// newCRD is a CustomResourceDefinition whose kind and group are its own.
func newCRD(name string) *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	group := name + ".example.com"
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}
}

func TestRegistrySaysWhatItMayNotWatch(t *testing.T) {
	t.Parallel()
	name := unique(t)
	config, err := env.UserConfig(name)
	require.NoError(t, err)
	w := newWatcher(t, config, name, 0)
	owner := watchregistry.Owner{Name: "one"}
	w.Sync(owner, []watchregistry.Key{configMapsV1})
	w.becomes(t, configMapsV1, watchregistry.Degraded)
	status := w.status(configMapsV1).Status
	require.Equal(t, watchregistry.ReasonForbidden, status.Reason)
	require.Contains(t, status.Message, name, "the API server's error says who may not do what")
	_, _, synced := w.Get(configMapsV1, "default", "any")
	require.False(t, synced)

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}
	require.NoError(t, admin.Create(t.Context(), role))
	require.NoError(t, admin.Create(t.Context(), binding))
	t.Cleanup(func() {
		_ = admin.Delete(context.Background(), binding)
		_ = admin.Delete(context.Background(), role)
	})
	await(t, func(c *assert.CollectT) {
		assert.Equal(c, watchregistry.Synced, w.status(configMapsV1).Status.State, "once it is granted, nobody has to restart anything")
	})
	await(t, func(c *assert.CollectT) {
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.Contains(c, w.told[owner], watchregistry.Degraded)
		assert.Contains(c, w.told[owner], watchregistry.Synced)
	}, "the owner is told of both, each by a goroutine of its own")
}

// TestRegistrySendsNothingUnderItsMutex makes the first request of a watch
// wait for ever: every other call must go on.
func TestRegistrySendsNothingUnderItsMutex(t *testing.T) {
	t.Parallel()
	stuck := &stuckCluster{}
	var err error
	stuck.Cluster, err = cluster.New(env.Config)
	require.NoError(t, err)
	w := newWatcher(t, env.Config, unique(t), 0)
	w.AddCluster("stuck", stuck)
	w.Sync(watchregistry.Owner{Name: "stuck"}, []watchregistry.Key{{Cluster: "stuck", GVR: configMapsV1.GVR}})
	w.Sync(watchregistry.Owner{Name: "one"}, []watchregistry.Key{configMapsV1})
	w.becomes(t, configMapsV1, watchregistry.Synced)
	require.Equal(t, watchregistry.Starting, w.status(watchregistry.Key{Cluster: "stuck", GVR: configMapsV1.GVR}).Status.State)
	w.Release(watchregistry.Owner{Name: "stuck"})
}

// stuckCluster is a cluster whose API server never answers a list or watch.
type stuckCluster struct{ *cluster.Cluster }

func (s *stuckCluster) Dynamic() dynamic.Interface {
	config := rest.CopyConfig(env.Config)
	config.Host = "https://127.0.0.1:1"
	config.Dial = func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return dynamic.NewForConfigOrDie(config)
}
