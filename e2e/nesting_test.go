package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// nested is a manifest of width VidraResources, each of which has the same manifest of
// width VidraResources, and so on: read to the end, it has width to the power of depth
// manifests. Aliases keep the text short. lists puts the items of each into lists in lists.
func nested(name string, width, depth int, lists bool) string {
	text := configMap("innermost", "hello")
	for level := range depth {
		var items []string
		for i := range width {
			head := fmt.Sprintf("- {apiVersion: infrahub.operators.com/v1alpha1, kind: VidraResource, metadata: {name: %s-%d-%d}, spec: {manifest: ", name, level, i)
			if i == 0 {
				head = fmt.Sprintf("- apiVersion: infrahub.operators.com/v1alpha1\n  kind: VidraResource\n  metadata: {name: %s-%d-0}\n  spec:\n    manifest: &text |\n", name, level)
				items = append(items, head+indented(text, "      "))
				continue
			}
			items = append(items, head+"*text}}\n")
		}
		text = "apiVersion: v1\nkind: List\nitems:\n" + strings.Join(items, "")
		if lists {
			text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n" + indented(strings.Join(items, ""), "  ")
		}
	}
	return text
}

// indented is a text with each line indented.
func indented(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+by) + "\n"
}

// TestNestedManifests has VidraResources whose manifests hold VidraResources whose
// manifests hold others, in numbers that no one could read. They cost others nothing.
func TestNestedManifests(t *testing.T) {
	t.Parallel()
	const hostile, width, depth = 8, 12, 12
	ns := newNamespace(t)
	page := configMap("page", "hello")
	newVidraResource(t, ns, page)
	awaitReady(t, ns)
	obj := declared(t, ns, page)[0]
	heal := func(i int) time.Duration { return healOf(t, ns, obj, fmt.Sprintf("mine %d", i)) }
	var alone, beside []time.Duration
	for i := range 10 {
		alone = append(alone, heal(i))
	}

	// Their account may write nothing, so that they make no VidraResources.
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "powerless"}}))
	var names []string
	for i := range hostile {
		name := fmt.Sprintf("%s-%d", ns, i)
		newVidraResource(t, ns, nested(name, width, depth, i%2 == 1), named(name), as("powerless"))
		names = append(names, name)
		beside = append(beside, heal(100+i))
	}
	for _, name := range names {
		awaitNotReady(t, name, v1alpha1.ReasonApplyFailed, "VidraResource "+name+"-", "forbidden")
		beside = append(beside, heal(200+len(beside)))
	}
	slices.Sort(alone)
	slices.Sort(beside)
	t.Logf("a heal took %s alone and %s beside them, at most %s", alone[5], beside[hostile], beside[2*hostile-1])
	require.Less(t, beside[hostile], 5*alone[5]+time.Second, "median of heals; alone: %s, beside them: %s", alone, beside)
}

// TestNestedManifestHoldsItsHolder has a VidraResource that makes one that makes one that
// would make the first: the last one is refused and says why, and all can be deleted.
func TestNestedManifestHoldsItsHolder(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	holding := func(name, manifest string) string {
		return fmt.Sprintf("apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata: {name: %s}\nspec:\n  manifest: |\n%s",
			name, indented(manifest, "    "))
	}
	one, two, three := ns+"-one", ns+"-two", ns+"-three"
	v := newVidraResource(t, ns, holding(two, holding(three, holding(one, configMap("page", "hello")))), named(one))
	t.Cleanup(func() { awaitGone(t, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: three}}) })
	awaitReady(t, one)
	await(t, func(c *assert.CollectT) { getVidraResource(c, three) })
	awaitNotReady(t, three, v1alpha1.ReasonManifestInvalid,
		"the manifest holds the VidraResource "+one+", whose manifest holds the VidraResource "+three, "take one of them out")
	require.NoError(t, deleteVidraResource(t.Context(), one))
	awaitGone(t, v)
}

// healOf edits a page, waits until it is healed, and returns how long that took.
func healOf(t *testing.T, owner string, page *unstructured.Unstructured, text string) time.Duration {
	t.Helper()
	require.NoError(t, mergePatch(page, `{"data":{"greeting":%q}}`, text))
	start := time.Now()
	for time.Since(start) < patience {
		if greeting(t, page) == "hello" {
			return time.Since(start)
		}
	}
	requireInOrder(t, owner, page)
	return patience
}
