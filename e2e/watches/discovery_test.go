package watches

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// TestF13VersionsComeAndGo: engines kept asking for a version that was served no
// longer, missed that it came back, or took another version for the same watch.
// Here the version that is stored changes, and one is withdrawn and comes back,
// and whoever watches the other is not disturbed.
func TestF13VersionsComeAndGo(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	crd, v1 := newCRD(t, unique(t), "v1", "v2")
	v2 := v1
	v2.GVR.Version = "v2"
	both := []watchregistry.Key{v1, v2}
	l.Sync(owner("one"), both)
	thing := l.thing(t, crd, "one")
	thing.SetAPIVersion(v2.GVR.GroupVersion().String()) // which is served all the time
	l.synced(t, both)
	follows := func(incarnations map[watchregistry.Key]uint64) {
		t.Helper()
		edit(t, thing)
		for key, incarnation := range incarnations {
			await(t, func(c *assert.CollectT) { assert.True(c, l.keeps(key, thing), "an edit arrives at %s", key) })
			require.Equal(t, incarnation, l.watch(key).Incarnation, "%s", key)
		}
	}

	mark := l.Mark()
	changeCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Storage, crd.Spec.Versions[1].Storage = false, true
	})
	follows(map[watchregistry.Key]uint64{v1: 1, v2: 1})
	await(t, func(c *assert.CollectT) {
		for _, key := range both {
			assert.NotEmpty(c, l.Requests(mark, resource(key, "watch")), "the streams of the older storage end")
		}
	})
	follows(map[watchregistry.Key]uint64{v1: 1, v2: 1})

	changeCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Served = false })
	l.becomes(t, v1, watchregistry.Pending)
	follows(map[watchregistry.Key]uint64{v2: 1})
	changeCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Served = true })
	l.syncedSoon(t, v1)
	follows(map[watchregistry.Key]uint64{v1: 2, v2: 1})

	onlyV2 := []byte(`{"status":{"storedVersions":["v2"]}}`) // no object is stored as v1 any more
	require.NoError(t, admin.Status().Patch(t.Context(), crd.DeepCopy(), client.RawPatch(types.MergePatchType, onlyV2)))
	var withdrawn apiextensionsv1.CustomResourceDefinitionVersion
	changeCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
		withdrawn, crd.Spec.Versions = crd.Spec.Versions[0], crd.Spec.Versions[1:]
	})
	l.becomes(t, v1, watchregistry.Pending)
	follows(map[watchregistry.Key]uint64{v2: 1})
	changeCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions = append(crd.Spec.Versions, withdrawn)
	})
	l.syncedSoon(t, v1)
	follows(map[watchregistry.Key]uint64{v1: 3, v2: 1})
}

// syncedSoon fails the test unless watches become Synced before anything but an
// event could have told that their kind is there.
func (l *lab) syncedSoon(t *testing.T, keys ...watchregistry.Key) {
	t.Helper()
	start := time.Now()
	l.synced(t, keys)
	took := time.Since(start)
	t.Logf("%v: synced after %s", keys, took.Round(time.Millisecond))
	require.Less(t, took, soon, "%v", keys)
}

// TestF14DiscoveryOfOneGroupFails: the server of one API group did not answer, the
// discovery of all groups failed with it, and no kind was found any more. Here
// the kinds of other groups are found as fast as ever, and those of the group once
// it answers.
func TestF14DiscoveryOfOneGroupFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		fault  faultproxy.Fault
	}{
		"fails": {
			reason: "an error is not an answer: the kind may be there",
			fault:  faultproxy.Status(apierrors.NewServiceUnavailable("its server is down")),
		},
		"stalls": {
			reason: "who waits for one group keeps no other one waiting",
			fault:  faultproxy.Stall(),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{})
			running, runs := newCRD(t, unique(t))
			comes, goes := testenv.CRD(unique(t)), testenv.CRD(unique(t))
			goes.Spec.Group = running.Spec.Group
			goes.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "others", Singular: "other", Kind: "Other", ListKind: "OtherList"}
			goes.Name = "others." + goes.Spec.Group
			missing, other := keyOf(goes), keyOf(comes)
			awaited := func(key watchregistry.Key, kind string) watchregistry.Kind {
				return watchregistry.Kind{GVK: key.GVR.GroupVersion().WithKind(kind)}
			}
			l.Sync(owner("one"), []watchregistry.Key{runs, missing, other, configMaps})
			l.synced(t, []watchregistry.Key{runs, configMaps})
			l.becomes(t, missing, watchregistry.Pending)
			l.becomes(t, other, watchregistry.Pending)
			l.Await(owner("one"), []watchregistry.Kind{awaited(missing, "Other"), awaited(other, "Thing")})

			fault := l.Inject(discoveries(runs), tt.fault)
			createCRD(t, goes)
			t.Cleanup(func() { _ = admin.Delete(context.Background(), goes) })
			await(t, func(c *assert.CollectT) { assert.GreaterOrEqual(c, fault.Hits(), 1) })
			createCRD(t, comes)
			t.Cleanup(func() { _ = admin.Delete(context.Background(), comes) })
			l.syncedSoon(t, other, runs, configMaps)
			await(t, func(c *assert.CollectT) {
				assert.Equal(c, []schema.GroupVersionKind{awaited(other, "Thing").GVK}, l.kinds("one"))
			})
			require.Equal(t, watchregistry.Pending, l.watch(missing).State, tt.reason)

			fault.Remove()
			l.synced(t, []watchregistry.Key{missing})
			await(t, func(c *assert.CollectT) { assert.Len(c, l.kinds("one"), 2) })
			for _, key := range []watchregistry.Key{runs, configMaps} {
				require.EqualValues(t, 1, l.watch(key).Incarnation, tt.reason)
			}
		})
	}
}

// TestF14AggregatedServerIsDown registers an API group whose server is not there.
func TestF14AggregatedServerIsDown(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	crd := testenv.CRD(unique(t))
	group := unique(t) + ".example.com"
	key := watchregistry.Key{GVR: schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}}
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1",
		"kind":       "APIService",
		"metadata":   map[string]any{"name": "v1." + group},
		"spec": map[string]any{
			"group": group, "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(15),
			"service": map[string]any{"namespace": "default", "name": "nobody"}, "insecureSkipTLSVerify": true,
		},
	}}
	require.NoError(t, admin.Create(t.Context(), service))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), service) })

	await(t, func(c *assert.CollectT) {
		l.Sync(owner("one"), []watchregistry.Key{key, keyOf(crd), configMaps})
		assert.Equal(c, watchregistry.Degraded, l.watch(key).State)
		assert.Equal(c, watchregistry.ReasonUnavailable, l.watch(key).Reason)
	})
	l.synced(t, []watchregistry.Key{configMaps})
	createCRD(t, crd)
	t.Cleanup(func() { _ = admin.Delete(context.Background(), crd) })
	l.syncedSoon(t, keyOf(crd))
	require.NoError(t, admin.Delete(t.Context(), service))
	l.becomes(t, key, watchregistry.Pending)
}
