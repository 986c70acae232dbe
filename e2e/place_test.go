package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRevertsNameThePlaceInTheManifest: the Events of a revert end with where to change the object. The
// place of an object of a Secret has its key and line, and no value.
func TestRevertsNameThePlaceInTheManifest(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	inline := "# the first document\n" + configMap("first", "one") + "---\n# the second document\n\n" + configMap("second", "one")
	list := fmt.Sprintf(`{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "third"}, "data": {"greeting": "one"}},
  {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fourth"}, "data": {"greeting": %q}}
]}`, "one")
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"app.json": list},
	}))
	require.NoError(t, admin.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hidden"}, StringData: map[string]string{"m": "---\n" + configMap("fifth", canary)},
	}))
	v := newVidraResource(t, ns, inline, fromParts(partIn("ConfigMap", "parts", "app.json"), partIn("Secret", "hidden", "m")))
	awaitReady(t, ns)
	second := 1 + strings.Count(inline[:strings.LastIndex(inline, "apiVersion")], "\n")
	for name, place := range map[string]string{
		"first":  "spec.manifest of VidraResource " + ns + ", document 1, line 2",
		"second": "spec.manifest of VidraResource " + ns + ", document 2, line " + strconv.Itoa(second),
		"third":  "ConfigMap " + ns + "/parts, key app.json (spec.manifestFrom[0]), document 1, line 2",
		"fourth": "ConfigMap " + ns + "/parts, key app.json (spec.manifestFrom[0]), document 1, line 3",
		"fifth":  "Secret " + ns + "/hidden, key m (spec.manifestFrom[1]), document 1, line 2",
	} {
		obj := declared(t, ns, configMap(name, "one"))[0]
		require.NoError(t, mergePatch(obj, `{"data":{"greeting":"mine"}}`))
		end := ". To keep a change, make it in " + place
		for _, e := range []string{
			awaitEvent(t, obj, corev1.EventTypeNormal, "ChangeReverted", "Restore", "data.greeting", end).Note,
			awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "ConfigMap "+ns+"/"+name, end).Note,
		} {
			require.Regexp(t, `line \d+$`, e, "the place is the end")
			require.Contains(t, e, place)
		}
	}
	requireNoValue(t, ns)
}
