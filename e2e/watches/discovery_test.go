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
// and the watches of the other are not disturbed.
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
	// before are the incarnations that the watches had lived when the storage had
	// changed, for which the API server may serve nothing for a moment.
	before := map[watchregistry.Key]uint64{}
	follows := func(incarnations map[watchregistry.Key]uint64) {
		t.Helper()
		edit(t, thing)
		for key, incarnation := range incarnations {
			await(t, func(c *assert.CollectT) { assert.True(c, l.keeps(key, thing), "an edit arrives at %s", key) })
			require.Equal(t, before[key]+incarnation, l.watch(key).InformerRuns, "%s", key)
		}
	}

	mark := l.Mark()
	changeCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Storage, crd.Spec.Versions[1].Storage = false, true
	})
	await(t, func(c *assert.CollectT) {
		for _, key := range both {
			assert.NotEmpty(c, l.Requests(mark, resource(key, "watch")), "the streams of the older storage end")
		}
	})
	l.synced(t, both)
	edit(t, thing)
	for _, key := range both {
		await(t, func(c *assert.CollectT) { assert.True(c, l.keeps(key, thing), "an edit arrives at %s", key) })
		before[key] = l.watch(key).InformerRuns - 1
	}
	follows(map[watchregistry.Key]uint64{v1: 1, v2: 1})

	changeCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Served = false })
	l.becomes(t, v1, watchregistry.Pending)
	follows(map[watchregistry.Key]uint64{v2: 1})
	changeCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Served = true })
	l.becomes(t, v1, watchregistry.Synced)
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
	l.becomes(t, v1, watchregistry.Synced)
	follows(map[watchregistry.Key]uint64{v1: 3, v2: 1})
}

// kindOf is the kind of the first version of a CustomResourceDefinition.
func kindOf(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionKind {
	return keyOf(crd).GVR.GroupVersion().WithKind(crd.Spec.Names.Kind)
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
			present, runs := newCRD(t, unique(t))
			elsewhere, here := testenv.CRD(unique(t)), testenv.CRD(unique(t))
			here.Spec.Group, here.Name = present.Spec.Group, "others."+present.Spec.Group
			here.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "others", Singular: "other", Kind: "Other", ListKind: "OtherList"}
			kindHere, kindElsewhere := kindOf(here), kindOf(elsewhere)
			l.Sync(owner("one"), []watchregistry.Key{runs, keyOf(here), keyOf(elsewhere), configMaps})
			l.Await(owner("one"), []watchregistry.Kind{{GVK: kindHere}, {GVK: kindElsewhere}})
			running := []watchregistry.Key{runs, configMaps}
			l.synced(t, running)
			before := l.informerRuns(running) // the API server may interrupt the first one of a new CRD
			l.becomes(t, keyOf(here), watchregistry.Pending)
			l.becomes(t, keyOf(elsewhere), watchregistry.Pending)

			fault, mark := l.Inject(discoveries(runs), tt.fault), l.Mark()
			install(t, here)
			await(t, func(c *assert.CollectT) { assert.NotEmpty(c, l.Requests(mark, discoveries(runs))) })
			install(t, elsewhere)
			start := time.Now()
			await(t, func(c *assert.CollectT) {
				assert.Equal(c, []schema.GroupVersionKind{kindElsewhere}, l.kinds("one"))
			})
			require.Less(t, time.Since(start), soon, tt.reason)
			l.synced(t, []watchregistry.Key{keyOf(elsewhere), runs, configMaps})
			require.Equal(t, watchregistry.Pending, l.watch(keyOf(here)).State, tt.reason)

			fault.Remove()
			l.becomes(t, keyOf(here), watchregistry.Synced)
			await(t, func(c *assert.CollectT) { assert.Contains(c, l.kinds("one"), kindHere) })
			require.Equal(t, before, l.informerRuns(running), tt.reason)
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
			"service": map[string]any{"namespace": "default", "name": "none"}, "insecureSkipTLSVerify": true,
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
	l.Await(owner("one"), []watchregistry.Kind{{GVK: kindOf(crd)}})
	install(t, crd)
	start := time.Now()
	await(t, func(c *assert.CollectT) { assert.NotEmpty(c, l.kinds("one")) })
	require.Less(t, time.Since(start), soon)
	l.becomes(t, keyOf(crd), watchregistry.Synced)
	require.Equal(t, watchregistry.Degraded, l.watch(key).State)
	require.NoError(t, admin.Delete(t.Context(), service))
	l.becomes(t, key, watchregistry.Pending)
}
