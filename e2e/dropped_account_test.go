package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// pods is a template of Pods; the account is inserted.
const pods = "metadata: {labels: {app: web}}, spec: {%srestartPolicy: RESTART, containers: [{name: web, image: registry.example/web}]}"

// templates are manifests of kinds with a template of Pods, without running Pods.
var templates = map[string]string{
	"Deployment": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {" + pods + "}}\n",
	"StatefulSet": "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web}\nspec: {replicas: 0, serviceName: web, selector: {matchLabels: {app: web}}, template: {" +
		pods + "}}\n",
	"ReplicaSet": "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web}\nspec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {" + pods + "}}\n",
	"DaemonSet":  "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: web}\nspec: {selector: {matchLabels: {app: web}}, template: {" + pods + "}}\n",
	"CronJob": "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: web}\nspec: {schedule: \"0 0 1 1 *\", suspend: true, jobTemplate: {spec: {template: {" +
		strings.ReplaceAll(pods, "RESTART", "Never") + "}}}}\n",
	"PodTemplate": "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: web}\ntemplate: {" + pods + "}\n",
	"Job":         "apiVersion: batch/v1\nkind: Job\nmetadata: {name: web}\nspec: {suspend: true, template: {" + strings.ReplaceAll(pods, "RESTART", "Never") + "}}\n",
}

// templateWith is the manifest of a kind whose Pods have an account.
func templateWith(kind, account string) string {
	return fmt.Sprintf(strings.ReplaceAll(templates[kind], "RESTART", "Always"), account)
}

// accountIn reports whether an object has an account in its template of Pods.
func accountIn(t require.TestingT, u *unstructured.Unstructured, account string) bool {
	u = u.DeepCopy()
	delete(u.Object, "metadata")
	text, err := json.Marshal(u.Object)
	require.NoError(t, err)
	return strings.Contains(string(text), account)
}

// TestDroppedAccount drops the account of the Pods from the manifest, which the API server keeps under its other name.
func TestDroppedAccount(t *testing.T) {
	t.Parallel()
	for kind := range templates {
		if kind == "Job" { // its template cannot be changed
			continue
		}
		for _, account := range []string{"serviceAccountName", "serviceAccount"} {
			for _, creator := range []string{"", "kubectl-client-side-apply"} {
				t.Run(strings.Join([]string{kind, account, creator}, " "), func(t *testing.T) {
					t.Parallel()
					ns := newNamespace(t)
					with := templateWith(kind, account+": robot, ")
					obj := declaredObject(t, ns, with, kind, "web")
					if creator != "" {
						require.NoError(t, admin.Create(t.Context(), obj.DeepCopy(), client.FieldOwner(creator)))
					}
					newVidraResource(t, ns, with)
					awaitReadyIgnoringHealth(t, ns)
					without := templateWith(kind, "")
					setManifest(t, ns, without)
					awaitReadyIgnoringHealth(t, ns)
					require.False(t, accountIn(t, get(t, obj), "robot"))
					requireDiff(t, ns, without, insight.ActionNone)
				})
			}
		}
	}
}

// TestAccountThatStays changes a manifest that never had the account of the Pods, that leaves it to others, or that has it under its other name
// now: it stays.
func TestAccountThatStays(t *testing.T) {
	t.Parallel()
	const path = "/spec/template/spec/serviceAccount"
	cases := map[string]struct {
		reason        string
		before, after string
		change        func(*v1alpha1.VidraResource)
		edit          func(t *testing.T, obj *unstructured.Unstructured)
	}{
		"NeverHad": {"A user added it.", "", "terminationGracePeriodSeconds: 5, ", nil, func(t *testing.T, obj *unstructured.Unstructured) {
			t.Helper()
			require.NoError(t, edit(obj, types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"serviceAccountName":"robot"}}}}`, client.FieldOwner("some-controller")))
		}},
		"Other": {"Another manager applied it, too.", "serviceAccountName: robot, ", "", nil, func(t *testing.T, obj *unstructured.Unstructured) {
			t.Helper()
			require.NoError(t, edit(obj, types.ApplyPatchType, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"spec":{"serviceAccountName":"robot","serviceAccount":"robot"}}}}`,
				client.FieldOwner("some-controller")))
		}},
		"Renamed": {"The manifest has it under its former name.", "serviceAccountName: robot, ", "serviceAccount: robot, ", nil, nil},
		"Ignored": {
			"A rule leaves it to others.", "serviceAccountName: robot, ", "terminationGracePeriodSeconds: 5, ",
			ignoring(v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Kind: "Deployment"}, Paths: []string{path, path + "Name"}}), nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			obj := declaredObject(t, ns, templateWith("Deployment", tc.before), "Deployment", "web")
			var changes []func(*v1alpha1.VidraResource)
			if tc.change != nil {
				changes = append(changes, tc.change)
			}
			newVidraResource(t, ns, templateWith("Deployment", tc.before), changes...)
			awaitReadyIgnoringHealth(t, ns)
			if tc.edit != nil {
				tc.edit(t, obj)
			}
			setManifest(t, ns, templateWith("Deployment", tc.after))
			awaitReadyIgnoringHealth(t, ns)
			require.True(t, accountIn(t, get(t, obj), "robot"), tc.reason)
		})
	}
}

// TestRefusedDropOfAnAccount drops the account of a Job, whose template cannot be changed: the refusal names the field, and Vidra owns no other
// field than before.
func TestRefusedDropOfAnAccount(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	with := templateWith("Job", "serviceAccountName: robot, ")
	newVidraResource(t, ns, with)
	awaitReadyIgnoringHealth(t, ns)
	job := declaredObject(t, ns, with, "Job", "web")
	uid := get(t, job).GetUID()
	setManifest(t, ns, templateWith("Job", ""))
	awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "Job "+ns+"/web", "spec.template")
	live := get(t, job)
	require.Equal(t, uid, live.GetUID())
	owned, recorded := ownership.Extract(live, "vidra/"+ns)
	require.True(t, recorded)
	_, found, err := unstructured.NestedFieldNoCopy(owned.Object, "spec", "template", "spec", "serviceAccount")
	require.NoError(t, err)
	require.False(t, found, "the manifest never had it")
	setManifest(t, ns, with)
	awaitReadyIgnoringHealth(t, ns)
}
