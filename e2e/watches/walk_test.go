package watches

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// walkedKind is a kind that may come and go.
type walkedKind struct {
	key watchregistry.Key
	gvk schema.GroupVersionKind
	// crd makes it exist; nil if it always does.
	crd    *apiextensionsv1.CustomResourceDefinition
	exists bool
	// since is when it came, and last the last checkpoint before which it existed.
	since time.Time
	last  int
	// forbidden is in force while it may not be watched.
	forbidden *faultproxy.Rule
	// asked and answered count how often owners waited for it, and were told.
	asked, answered map[watchregistry.Owner]int
	// objects are those of the lab, by name.
	objects map[string]*unstructured.Unstructured
}

// expected are the views of a watch on the kind that are right.
func (k *walkedKind) expected() []view {
	missing := view{watchregistry.Pending, watchregistry.ReasonNotFound}
	forbidden := view{watchregistry.Degraded, watchregistry.ReasonForbidden}
	switch {
	case k.forbidden != nil && !k.exists: // without the right to read, it is unknown
		return []view{missing, forbidden}
	case k.forbidden != nil:
		return []view{forbidden}
	case !k.exists:
		return []view{missing}
	default:
		return []view{{State: watchregistry.Synced}}
	}
}

// comeOrGo creates or deletes the kind.
func (k *walkedKind) comeOrGo(t *testing.T) {
	t.Helper()
	k.exists = !k.exists
	if k.exists {
		createCRD(t, k.crd)
		k.since = time.Now()
		return
	}
	// One that is deleted before it is established may be served for minutes more.
	await(t, func(c *assert.CollectT) {
		present := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(k.crd), present))
		assert.True(c, apihelpers.IsCRDConditionTrue(present, apiextensionsv1.Established))
	})
	require.NoError(t, admin.Delete(t.Context(), k.crd))
	clear(k.objects)
}

// change creates, edits or deletes an object of the kind, which has to exist.
func (k *walkedKind) change(t *testing.T, objects dynamic.ResourceInterface, label, name string, what int) {
	t.Helper()
	// The API server has a request to create an object of a new kind wait for as long.
	const fresh = 2500 * time.Millisecond
	var err error
	switch present := k.objects[name]; {
	case present == nil && time.Since(k.since) < fresh:
	case present == nil:
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(k.gvk)
		obj.SetName(name)
		obj.SetLabels(map[string]string{"test": label})
		k.objects[name], err = objects.Create(t.Context(), obj, metav1.CreateOptions{})
	case what > 0:
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"edited":"%d"}}}`, edits.Add(1))
		k.objects[name], err = objects.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	default:
		err = objects.Delete(t.Context(), name, metav1.DeleteOptions{})
		delete(k.objects, name)
	}
	require.NoError(t, err)
}

// agrees says whether a watch that is Synced, and its handler, agree with what there
// is of the kind. One that is not may know what has been.
func (k *walkedKind) agrees(c *assert.CollectT, l *lab, watch watchregistry.Watch, known map[string]string) {
	if watch.State != watchregistry.Synced {
		return
	}
	truth := map[string]string{}
	for name, obj := range k.objects {
		truth[name] = obj.GetResourceVersion()
		assert.True(c, l.keeps(k.key, obj), "%s keeps %s", k.key, name)
	}
	assert.EqualValues(c, len(truth), watch.Objects, "%s keeps nothing else", k.key)
	assert.Equal(c, truth, known, "the handler of %s knows what there is", k.key)
}

// requireAsked requires that an owner was told that the kind has come no more often
// than it asked for that, and not while it was missing.
func (k *walkedKind) requireAsked(t *testing.T, o watchregistry.Owner, arrived []schema.GroupVersionKind, checkpoint int) {
	t.Helper()
	for _, gvk := range arrived {
		if gvk == k.gvk {
			k.answered[o]++
			require.GreaterOrEqual(t, k.last, checkpoint-1, "%s was told of %s, which is missing", o, gvk)
		}
	}
	require.LessOrEqual(t, k.answered[o], k.asked[o], "%s was told of %s", o, k.gvk)
}
