package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// editEvery is how far apart the edits of a person are, and edits how many
	// there are.
	editEvery = 200 * time.Millisecond
	edits     = 20
)

// TestHeal edits managed objects the way a person does. Every edit must be put
// back, with one PATCH and no other request, and told.
func TestHeal(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		// kind of the object in the manifest web that is edited.
		kind string
		// edit number i, of an object that owner manages.
		edit func(obj *unstructured.Unstructured, owner string, i int) error
		// told is what the Events must say of the first edit; nothing if the
		// edit changed no value.
		told []string
		// hidden is what they must not say.
		hidden []string
	}{
		"deployment replicas": {
			reason: "the edit that the first operator missed 15 times of 20", kind: "Deployment",
			edit: func(obj *unstructured.Unstructured, _ string, i int) error {
				return mergePatch(obj, `{"spec":{"replicas":%d}}`, 2+i%3)
			},
			told: []string{`reverted spec.replicas to 1; "person" had set it to 2`},
		},
		"deployment scale": {
			reason: "kubectl scale writes through a subresource", kind: "Deployment",
			edit: func(obj *unstructured.Unstructured, _ string, i int) error {
				scale := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, 2+i%3))
				return admin.SubResource("scale").Patch(t.Context(), obj.DeepCopy(), scale, client.FieldOwner(person))
			},
			told: []string{`reverted spec.replicas to 1; "person" had set it to 2 through scale`},
		},
		"deployment deleted": {
			reason: "missed 19 times of 20", kind: "Deployment",
			edit: func(obj *unstructured.Unstructured, _ string, _ int) error {
				return admin.Delete(t.Context(), obj.DeepCopy(), client.PropagationPolicy("Background"))
			},
			told: []string{"created it again after it had been deleted"},
		},
		"configmap deleted": {
			reason: "missed 19 times of 20", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured, _ string, _ int) error {
				return admin.Delete(t.Context(), obj.DeepCopy())
			},
			told: []string{"created it again after it had been deleted"},
		},
		"service selector": {
			reason: "a kind without generation, and a map that is owned as a whole", kind: "Service",
			edit: func(obj *unstructured.Unstructured, _ string, i int) error {
				return mergePatch(obj, `{"spec":{"selector":{"app":"other-%d"}}}`, i)
			},
			told: []string{`spec.selector`, `other-0`, `"person" had set it to `},
		},
		"configmap data": {
			reason: "a kind without generation", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured, _ string, i int) error {
				return mergePatch(obj, `{"data":{"greeting":"changed %d"}}`, i)
			},
			told: []string{`reverted data.greeting to "hello"; "person" had set it to "changed 0"`},
		},
		"configmap key removed": {
			reason: "who removes a field owns nothing, so no manager can be named", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured, _ string, _ int) error {
				return jsonPatch(obj, `[{"op":"remove","path":"/data/greeting"}]`)
			},
			told: []string{`restored data.greeting to "hello"`},
		},
		"label changed": {
			reason: "labels are fields of the manifest like others", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured, _ string, i int) error {
				return mergePatch(obj, `{"metadata":{"labels":{"app":"changed-%d"}}}`, i)
			},
			told: []string{`reverted metadata.labels.app to "web"; "person" had set it to "changed-0"`},
		},
		"label removed": {
			reason: "a label that is not the one we watch by", kind: "Deployment",
			edit: func(obj *unstructured.Unstructured, _ string, _ int) error {
				return jsonPatch(obj, `[{"op":"remove","path":"/metadata/labels/app"}]`)
			},
			told: []string{`restored metadata.labels.app to "web"`},
		},
		"owner annotation removed": {
			reason: "an object whose marks are stripped is still ours", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured, _ string, _ int) error {
				return mergePatch(obj, `{"metadata":{"annotations":null}}`)
			},
			told: []string{"metadata.annotations", "restored "},
		},
		"managed fields cleared": {
			reason: "without them the owned fields are unknown", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured, _ string, _ int) error {
				return mergePatch(obj, `{"metadata":{"managedFields":[{}]}}`)
			},
		},
		"managed fields cleared and data": {
			reason: "nor what was changed, but the value says it", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured, _ string, i int) error {
				return mergePatch(obj, `{"metadata":{"managedFields":[{}]},"data":{"greeting":"changed %d"}}`, i)
			},
			told: []string{`reverted data.greeting to "hello"`, `had set it to "changed 0"`},
		},
		"same manager": {
			reason: "an edit under our own name leaves the owned set as it was", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured, owner string, i int) error {
				return applyAs(obj, owner, fmt.Sprintf("changed %d", i))
			},
			told: []string{`reverted data.greeting to "hello"`, `had set it to "changed 0"`},
		},
		"applied by another": {
			reason: "a user forces his own configuration on the object", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured, _ string, i int) error {
				patch := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","data":{"greeting":"changed %d"}}`, i)
				return edit(obj, types.ApplyPatchType, patch, client.ForceOwnership)
			},
			told: []string{`reverted data.greeting to "hello"; "person" had set it to "changed 0"`},
		},
		"secret": {
			reason: "the path is told, the value never", kind: "Secret",
			edit: func(obj *unstructured.Unstructured, _ string, i int) error {
				value := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "letmein%d", i))
				return mergePatch(obj, `{"data":{"password":%q}}`, value)
			},
			told:   []string{"data.password (values withheld)", `"person" had changed it`},
			hidden: []string{"letmein", "bGV0bWVpb", "hunter2", "aHVudGVyMg"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, web)
			v := awaitReady(t, ns)
			obj := declaredObject(t, ns, web, tt.kind, objectNames[tt.kind])

			mark := auditMark(t)
			var took []time.Duration
			ticker := time.NewTicker(editEvery)
			defer ticker.Stop()
			for i := range edits {
				<-ticker.C
				before := time.Now()
				require.NoError(t, tt.edit(obj, ns, i))
				awaitInOrder(t, ns, obj)
				took = append(took, time.Since(before))
			}
			slices.Sort(took)
			t.Logf("%d edits reverted, %s in the median, at most %s, polled every %s", edits, took[edits/2], took[edits-1], poll)

			sent := func() requests {
				all := operatorSince(t, mark).ObjectsIn(ns)
				if suite.Deployed() { // an event that arrives seconds late is compared with what is read then
					all = all.Writes()
				}
				return all
			}
			for _, request := range requireCount(t, edits, sent, "one request for each edit, none for other objects") {
				require.Equal(t, "patch", request.Verb, tt.reason)
				require.Equal(t, obj.GetName(), request.Name)
			}
			requireTold(t, v, obj, tt.told, tt.hidden)
			if tt.told == nil {
				return
			}
			await(t, func(c *assert.CollectT) {
				drift := getVidraResource(c, ns).Status.Drift
				require.NotNil(c, drift)
				require.EqualValues(c, edits, drift.Heals)
				require.NotNil(c, drift.LastHealTime)
				require.Equal(c, fmt.Sprintf("%s %s/%s", tt.kind, ns, obj.GetName()), drift.LastHeal.Object)
			}, "the status counts the heals")
			v = awaitReady(t, ns)
			require.Equal(t, string(get(t, obj).GetUID()), entry(t, v, tt.kind, obj.GetName()).UID)
		})
	}
}

// objectNames are the names in the manifest web.
var objectNames = map[string]string{"Deployment": "web", "ConfigMap": "page", "Service": "web", "Secret": "login"}

// applyAs applies another value as the field manager of the VidraResource owner.
func applyAs(obj *unstructured.Unstructured, owner, value string) error {
	config := obj.DeepCopy()
	labels := config.GetLabels()
	labels[v1alpha1.ManagedByLabel] = v1alpha1.ManagedByValue
	config.SetLabels(labels)
	config.SetAnnotations(map[string]string{v1alpha1.OwnerAnnotationKey(owner): owner})
	if err := unstructured.SetNestedField(config.Object, value, "data", "greeting"); err != nil {
		return err
	}
	patch, err := json.Marshal(config.Object)
	if err != nil {
		return err
	}
	return edit(obj, types.ApplyPatchType, string(patch), client.FieldOwner("vidra/"+owner))
}

// requireTold requires the two Events about an edit that was reverted: one on
// the VidraResource, one on the object, because that is where a person looks.
func requireTold(t *testing.T, v *v1alpha1.VidraResource, obj *unstructured.Unstructured, told, hidden []string) {
	t.Helper()
	if told == nil {
		return
	}
	corrected := awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", append([]string{obj.GetName()}, told...)...)
	require.NotNil(t, corrected.Related)
	require.Equal(t, obj.GetKind(), corrected.Related.Kind)
	require.Equal(t, obj.GetAPIVersion(), corrected.Related.APIVersion)
	require.Equal(t, obj.GetNamespace(), corrected.Related.Namespace)
	require.Equal(t, obj.GetName(), corrected.Related.Name)
	reverted := awaitEvent(t, obj, corev1.EventTypeNormal, "ChangeReverted", "Restore", append([]string{"VidraResource " + v.Name}, told...)...)
	require.NotNil(t, reverted.Related)
	require.Equal(t, v.Name, reverted.Related.Name)
	for _, e := range append(eventsAbout(t, v), eventsAbout(t, obj)...) {
		for _, value := range hidden {
			require.NotContains(t, e.String(), value)
		}
	}
	for _, value := range hidden {
		require.NotContains(t, fmt.Sprint(getVidraResource(t, v.Name).Status), value)
		require.NotContains(t, operatorLog(t), value)
	}
}
