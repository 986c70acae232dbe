package watches

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

const poll = suite.Poll

var (
	patience   = suite.Patience
	configMaps = watchregistry.Key{GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}
	secrets    = watchregistry.Key{GVR: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}}
	services   = watchregistry.Key{GVR: schema.GroupVersionResource{Version: "v1", Resource: "services"}}
)

// What package suite does, under short names.
var (
	await  = suite.Await
	unique = suite.Unique
)

// edits counts the edits, so that each is another one.
var edits atomic.Int64

// owner is an owner of watches.
func owner(name string) watchregistry.Owner { return watchregistry.Owner{Name: name} }

// told is what an owner was told of a watch.
type told struct {
	owner  string
	watch  watchregistry.Key
	status watchregistry.Status
}

// lab is a registry of its own behind a proxy of its own, with what it reported.
type lab struct {
	*watchregistry.Registry
	// Proxy stands between the registry and the API server.
	*faultproxy.Proxy
	// label is the value of the label test that its objects have.
	label string

	// mu guards what follows.
	mu sync.Mutex
	// objects are the resourceVersions of the objects that the handlers know, by
	// "resource namespace/name".
	objects map[string]string
	// deleted counts how often each was reported as deleted, and missed how often
	// with a tombstone, because the deletion itself was not seen.
	deleted, missed map[string]int
	// tombstones are the last of each.
	tombstones map[string]cache.DeletedFinalStateUnknown
	told       []told
	// relisted counts how often each owner was told that a watch was listed anew.
	relisted map[string]int
	// arrived are the kinds that owners were told to have come, by owner.
	arrived map[string][]schema.GroupVersionKind
}

// labOptions are the options of a lab. The zero value is good.
type labOptions struct {
	// config reaches the API server behind the proxy. Defaults to the
	// administrator's.
	config *rest.Config
	// direct leaves the proxy out, whose record of requests grows.
	direct bool
	linger time.Duration
	// onEvent is called for each event of a handler, before it is noted. It may
	// block.
	onEvent func(gvr schema.GroupVersionResource)
	// log is the log of the registry. Defaults to none.
	log logr.Logger
	// transform decides what is kept of an object. Defaults to metadataOnly.
	transform cache.TransformFunc
}

// newLab starts a registry. It ends with the test, which fails if the registry
// contradicts itself then, or does not stop.
func newLab(t *testing.T, o labOptions) *lab {
	t.Helper()
	if o.config == nil {
		o.config = env.Config
	}
	l := &lab{
		label:   unique(t),
		objects: map[string]string{}, deleted: map[string]int{}, missed: map[string]int{},
		tombstones: map[string]cache.DeletedFinalStateUnknown{},
		arrived:    map[string][]schema.GroupVersionKind{},
		relisted:   map[string]int{},
	}
	if o.transform == nil {
		o.transform = metadataOnly
	}
	l.Registry = watchregistry.New(watchregistry.Options{
		LabelSelector: "test=" + l.label,
		Linger:        o.linger,
		Log:           o.log,
		HandlerFor: func(_ string, gvr schema.GroupVersionResource) cache.ResourceEventHandler {
			return l.handler(t, gvr, o.onEvent)
		},
		TransformFor: func(string, schema.GroupVersionResource) cache.TransformFunc { return o.transform },
		OnWatch: func(owner watchregistry.Owner, key watchregistry.Key, status watchregistry.Status) {
			l.note(func() { l.told = append(l.told, told{owner.Name, key, status}) })
		},
		OnKind: func(owner watchregistry.Owner, kind watchregistry.Kind) {
			l.note(func() { l.arrived[owner.Name] = append(l.arrived[owner.Name], kind.GVK) })
		},
		OnRelist: func(owner watchregistry.Owner, _ watchregistry.Key) {
			l.note(func() { l.relisted[owner.Name]++ })
		},
	})
	if !o.direct {
		var err error
		l.Proxy, err = faultproxy.Start(o.config)
		require.NoError(t, err)
		t.Cleanup(l.Close)
		o.config = l.Config()
	}
	destination, err := cluster.New(o.config)
	require.NoError(t, err)
	l.AddCluster("", destination)
	t.Cleanup(func() {
		assert.Empty(t, l.Audit(), "the registry contradicts itself")
		start := time.Now()
		l.Stop()
		assert.Less(t, time.Since(start), 5*time.Second, "Stop does not wait")
	})
	return l
}

func (l *lab) note(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// handler notes what a handler is told.
func (l *lab) handler(t *testing.T, gvr schema.GroupVersionResource, onEvent func(schema.GroupVersionResource)) cache.ResourceEventHandler {
	id := func(obj any) string {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			t.Error(err) // not the goroutine of the test, which alone may end it
		}
		if onEvent != nil {
			onEvent(gvr)
		}
		return gvr.Resource + " " + key
	}
	see := func(obj any) {
		key := id(obj)
		m, ok := obj.(*metav1.PartialObjectMetadata)
		if !ok {
			t.Errorf("the handler was given a %T", obj)
			return
		}
		l.note(func() { l.objects[key] = m.ResourceVersion })
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, obj any) { see(obj) },
		DeleteFunc: func(obj any) {
			key := id(obj)
			l.note(func() {
				delete(l.objects, key)
				l.deleted[key]++
				if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					l.missed[key]++
					l.tombstones[key] = tombstone
				}
			})
		},
	}
}

// metadataOnly keeps the name and the resourceVersion of an object.
func metadataOnly(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: u.GetName(), Namespace: u.GetNamespace(), ResourceVersion: u.GetResourceVersion(),
	}}, nil
}

// watch describes a watch; it is empty if there is no such watch.
func (l *lab) watch(key watchregistry.Key) watchregistry.Watch {
	for _, watch := range l.Watches() {
		if watch.Key == key {
			return watch
		}
	}
	return watchregistry.Watch{}
}

// becomes waits until a watch is in a state.
func (l *lab) becomes(t *testing.T, key watchregistry.Key, state watchregistry.State) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		w := l.watch(key)
		assert.Equal(c, state, w.State, "%s: %s", w.Reason, w.Message)
	})
}

// knows says whether a handler knows an object, and in which resourceVersion.
func (l *lab) knows(key watchregistry.Key, obj client.Object) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.objects[id(key, obj)] == obj.GetResourceVersion()
}

// gone says how often a handler was told that an object was deleted, and how
// often of that with a tombstone.
func (l *lab) gone(key watchregistry.Key, obj client.Object) (deleted, missed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deleted[id(key, obj)], l.missed[id(key, obj)]
}

func id(key watchregistry.Key, obj client.Object) string {
	return key.GVR.Resource + " " + client.ObjectKeyFromObject(obj).String()
}

// known are the objects that the handlers know.
func (l *lab) known() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.objects)
}

// states are the states that an owner was told of a watch, in order.
func (l *lab) states(owner string, key watchregistry.Key) []watchregistry.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	var states []watchregistry.State
	for _, t := range l.told {
		if t.owner == owner && t.watch == key {
			states = append(states, t.status.State)
		}
	}
	return states
}

// kinds are the kinds that an owner was told to have come.
func (l *lab) kinds(owner string) []schema.GroupVersionKind {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.arrived[owner])
}

// configMap creates a ConfigMap that the lab watches.
func (l *lab) configMap(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: l.label + "-" + name, Labels: map[string]string{"test": l.label},
	}}
	require.NoError(t, admin.Create(t.Context(), cm))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), cm) })
	return cm
}

// thing creates an object of the kind of testenv.CRD that the lab watches.
func (l *lab) thing(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, name string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.Kind})
	obj.SetNamespace("default")
	obj.SetName(name)
	obj.SetLabels(map[string]string{"test": l.label})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, admin.Create(context.Background(), obj))
	}, patience, poll, "the kind is served soon")
	return obj
}

// edit changes an object: it gets an annotation.
func edit(t *testing.T, obj client.Object) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"edited":"%d"}}}`, edits.Add(1))
	require.NoError(t, admin.Patch(t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// newCRD creates a CustomResourceDefinition, and returns it with the key of the
// watch of its first version.
func newCRD(t *testing.T, name string, versions ...string) (*apiextensionsv1.CustomResourceDefinition, watchregistry.Key) {
	t.Helper()
	crd := testenv.CRD(name, versions...)
	createCRD(t, crd)
	t.Cleanup(func() { _ = admin.Delete(context.Background(), crd) })
	return crd, keyOf(crd)
}

// createCRD creates a copy of a CustomResourceDefinition, and waits until an
// older one of its name has gone.
func createCRD(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	fresh := crd.DeepCopy()
	fresh.ResourceVersion, fresh.UID = "", ""
	await(t, func(c *assert.CollectT) { assert.NoError(c, admin.Create(context.Background(), fresh.DeepCopy())) })
}

// keyOf is the key of the watch of the first version of a CustomResourceDefinition.
func keyOf(crd *apiextensionsv1.CustomResourceDefinition) watchregistry.Key {
	return watchregistry.Key{GVR: schema.GroupVersionResource{
		Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Resource: crd.Spec.Names.Plural,
	}}
}
