package trigger

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/healthcheck"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// ofKind is an object of generation 2 with more content: JSON, after a comma.
func ofKind(t testing.TB, apiVersion, kind, more string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, u.UnmarshalJSON(fmt.Appendf(nil,
		`{"apiVersion":%q,"kind":%q,"metadata":{"name":"settings","namespace":"shop","generation":2}%s}`, apiVersion, kind, more)))
	return u
}

func TestHealthByKind(t *testing.T) {
	const deployed = `,"spec":{"replicas":2,"progressDeadlineSeconds":600},"status":{"observedGeneration":2,"replicas":2,`
	cases := map[string]struct {
		reason, apiVersion, kind, more string
		want                           Health
	}{
		"DeploymentNew": {"No controller has seen it.", "apps/v1", "Deployment", `,"spec":{"replicas":2}`,
			Health{Status: status.InProgressStatus, Message: "Replicas: 0/2"}},
		"DeploymentBehind": {"What its status says is of another spec.", "apps/v1", "Deployment", `,"status":{"observedGeneration":1}`,
			Health{Status: status.InProgressStatus, Message: "Deployment generation is 2, but latest observed generation is 1"}},
		"DeploymentProgressing": {"One Pod is of the old template.", "apps/v1", "Deployment", deployed + `"updatedReplicas":1}`,
			Health{Status: status.InProgressStatus, Message: "Updated: 1/2"}},
		"DeploymentAvailable": {"All is there.", "apps/v1", "Deployment", deployed + `"updatedReplicas":2,"readyReplicas":2,
"availableReplicas":2,"conditions":[{"type":"Available","status":"True"},
{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}`, Health{Status: status.CurrentStatus}},
		"DeploymentFailed": {"It has given up.", "apps/v1", "Deployment", deployed + `"updatedReplicas":1,
"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}`,
			Health{Status: status.FailedStatus, Message: "Progress deadline exceeded"}},
		"StatefulSetStarting": {"A Pod is not ready.", "apps/v1", "StatefulSet",
			`,"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"readyReplicas":1}`,
			Health{Status: status.InProgressStatus, Message: "Ready: 1/2"}},
		"StatefulSetReady": {"All is there.", "apps/v1", "StatefulSet", `,"spec":{"replicas":2},"status":{"observedGeneration":2,
"replicas":2,"readyReplicas":2,"currentReplicas":2,"updatedReplicas":2,"currentRevision":"a","updateRevision":"a"}`,
			Health{Status: status.CurrentStatus}},
		"JobRunning": {"A Job that runs is as its spec wants it.", "batch/v1", "Job", `,"status":{"startTime":"2026-01-02T03:04:05Z"}`,
			Health{Status: status.CurrentStatus}},
		"JobFailed": {"It will not run again.", "batch/v1", "Job",
			`,"status":{"failed":3,"conditions":[{"type":"Failed","status":"True"}]}`,
			Health{Status: status.FailedStatus, Message: "Job Failed. failed: 3/1"}},
		"ClaimPending": {"There is no volume.", "v1", "PersistentVolumeClaim", `,"status":{"phase":"Pending"}`,
			Health{Status: status.InProgressStatus, Message: "PVC is not Bound. phase: Pending"}},
		"ClaimNew":  {"Nobody has looked for a volume.", "v1", "PersistentVolumeClaim", ``, Health{Status: status.InProgressStatus, Message: "PVC is not Bound. phase: unknown"}},
		"Service":   {"It has nothing to wait for.", "v1", "Service", `,"status":{"loadBalancer":{}}`, Health{Status: status.CurrentStatus}},
		"ConfigMap": {"It has no status.", "v1", "ConfigMap", `,"data":{"color":"blue"}`, Health{Status: status.CurrentStatus}},
		"Secret":    {"It has no status.", "v1", "Secret", `,"data":{"color":"Ymx1ZQ=="}`, Health{Status: status.CurrentStatus}},
		"Role":      {"A kind that says nothing of itself is Current.", "rbac.authorization.k8s.io/v1", "Role", ``, Health{Status: status.CurrentStatus}},
		"CustomReady": {"It says so.", "example.com/v1", "Widget",
			`,"status":{"observedGeneration":2,"conditions":[{"type":"Painted","status":"False"},{"type":"Ready","status":"True"}]}`,
			Health{Status: status.CurrentStatus}},
		"CustomNotReady": {"It says why.", "example.com/v1", "Widget", `,"status":{"observedGeneration":2,
"conditions":[{"type":"Painted","status":"False"},{"type":"Ready","status":"False","reason":"Wet","message":"the paint is wet"}]}`,
			Health{Status: status.InProgressStatus, Message: "the paint is wet"}},
		"CustomBehind": {"It was ready before the last change.", "example.com/v1", "Widget",
			`,"status":{"observedGeneration":1,"conditions":[{"type":"Ready","status":"True"}]}`,
			Health{Status: status.InProgressStatus, Message: "Widget generation is 2, but latest observed generation is 1"}},
		"CustomReconciling": {"A condition that kstatus defines goes before Ready.", "example.com/v1", "Widget",
			`,"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Reconciling","status":"True","message":"a new coat"}]}`,
			Health{Status: status.InProgressStatus, Message: "a new coat"}},
		"CustomStalled": {"It does not get there by itself.", "example.com/v1", "Widget",
			`,"status":{"conditions":[{"type":"Stalled","status":"True","message":"no paint left"},{"type":"Ready","status":"False"}]}`,
			Health{Status: status.FailedStatus, Message: "no paint left"}},
		"CustomWithoutConditions": {"There is nothing to go by.", "example.com/v1", "Widget", `,"status":{"phase":"Wet"}`,
			Health{Status: status.CurrentStatus}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := ofKind(t, tc.apiVersion, tc.kind, tc.more)
			kept, err := newRig(t).TransformFor("", configMaps)(u)
			require.NoError(t, err)
			health, ok := CheckedHealthOf(kept, nil)
			require.True(t, ok)
			require.Equal(t, tc.want, health, tc.reason)
			require.Equal(t, ofKind(t, tc.apiVersion, tc.kind, tc.more), u, "the object is as it was")

			whole, err := status.Compute(u)
			require.NoError(t, err)
			require.Equal(t, whole.Status, health.Status, "what is not computed would have given the same")

			u.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-02T03:04:05Z"
			deleted := CheckHealth(u, nil)
			require.Equal(t, status.TerminatingStatus, deleted.Status, "whatever is deleted")
			require.Zero(t, deleted.WaitsSince, "it waits for nothing")
			u.SetFinalizers([]string{"example.com/a", "example.com/b"})
			require.Equal(t, Health{
				Status: status.TerminatingStatus, Message: "waits for its finalizers (example.com/a, example.com/b)",
				WaitsSince: u.GetDeletionTimestamp().Unix(),
			}, CheckHealth(u, nil))
		})
	}
}

func TestMalformedObjectsHaveAHealth(t *testing.T) {
	cases := map[string]struct{ reason, apiVersion, kind, more, want string }{
		"StatusIsText":     {"kstatus says what is wrong.", "example.com/v1", "Widget", `,"status":"wet"`, "of the type string"},
		"StatusIsAList":    {"kstatus says what is wrong.", "apps/v1", "Deployment", `,"status":[1]`, "expected map"},
		"ConditionsAreMap": {"kstatus says what is wrong.", "example.com/v1", "Widget", `,"status":{"conditions":{"Ready":true}}`, "cannot restore slice"},
		"ConditionIsText":  {"What cannot be told apart is left to kstatus.", "example.com/v1", "Widget", `,"status":{"conditions":["Ready"]}`, "cannot restore struct"},
		"TypeIsANumber":    {"What cannot be told apart is left to kstatus.", "example.com/v1", "Widget", `,"status":{"conditions":[{"type":1}]}`, "cannot convert"},
		"GenerationIsText": {"kstatus says what is wrong.", "example.com/v1", "Widget", `,"status":{"observedGeneration":"2"}`, "observedGeneration"},
		"ContainerIsText": {"kstatus panics.", "v1", "Pod", `,"status":{"phase":"Running","containerStatuses":["web"]}`,
			"its status is malformed: interface conversion"},
		"StateIsNull": {"kstatus panics.", "v1", "Pod", `,"status":{"phase":"Running","containerStatuses":[{"name":"web","state":null}]}`,
			"its status is malformed: interface conversion"},
		"NameIsANumber": {"kstatus panics.", "v1", "Pod", `,"status":{"phase":"Running","containerStatuses":[{"name":1}]}`,
			"its status is malformed: interface conversion"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			health := CheckHealth(ofKind(t, tc.apiVersion, tc.kind, tc.more), nil)
			require.Equal(t, status.UnknownStatus, health.Status, tc.reason)
			require.Contains(t, health.Message, tc.want)
		})
	}
}

// TestAnythingAnywhereHasAHealth puts what does not belong there into every place that
// kstatus reads, in every kind that it knows.
func TestAnythingAnywhereHasAHealth(t *testing.T) {
	kinds := []string{
		"v1 Service", "v1 Pod", "v1 Secret", "v1 PersistentVolumeClaim", "v1 ConfigMap", "apps/v1 StatefulSet", "apps/v1 DaemonSet",
		"apps/v1 Deployment", "apps/v1 ReplicaSet", "policy/v1 PodDisruptionBudget", "batch/v1 CronJob", "batch/v1 Job",
		"apiextensions.k8s.io/v1 CustomResourceDefinition", "example.com/v1 Widget",
	}
	places := []string{
		"metadata.generation", "metadata.deletionTimestamp", "metadata.creationTimestamp", "metadata.annotations",
		"spec", "spec.replicas", "spec.updateStrategy", "spec.updateStrategy.rollingUpdate", "spec.type", "spec.parallelism",
		"status", "status.observedGeneration", "status.replicas", "status.phase", "status.startTime",
		"status.conditions", "status.containerStatuses",
	}
	junk := []string{
		`null`, `true`, `-1`, `1.5`, `"é"`, `[]`, `[null]`, `["x",{"type":null}]`, `{}`, `{"type":{"type":[]}}`,
		`[{"type":"Ready","status":"False","message":7}]`, `[{"name":"web","state":{"waiting":{"reason":[]}}}]`, `9223372036854775807`,
		`{"conditions":[{"type":"Ready","status":1}],"phase":"Running","containerStatuses":[[]]}`, `"` + strings.Repeat("é", maxMessage) + `"`,
	}
	for _, kind := range kinds {
		apiVersion, kind, _ := strings.Cut(kind, " ")
		for _, place := range places {
			for _, value := range junk {
				text := `{"spec":{},"status":{"phase":"Running"}}`
				u := ofKind(t, apiVersion, kind, ","+text[1:len(text)-1])
				wrong := &unstructured.Unstructured{}
				require.NoError(t, wrong.UnmarshalJSON([]byte(`{"kind":"Junk","value":`+value+`}`)))
				require.NoError(t, unstructured.SetNestedField(u.Object, wrong.Object["value"], strings.Split(place, ".")...))
				before := u.DeepCopy()
				health := CheckHealth(u, nil)
				require.Contains(t, statuses, health.Status)
				require.LessOrEqual(t, len(health.Message), maxMessage)
				require.True(t, utf8.ValidString(health.Message))
				require.Equal(t, before, u)
			}
		}
	}
}

func TestHealthIsCheap(t *testing.T) {
	none := smallConfigMap.decoded(t, 0, owner, "blue", "100")
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { CheckHealth(none, nil) }), 2.0, "what has no status costs nothing to speak of")
	ten := talkativeWidget.decoded(t, 0, owner, "blue", "100")
	require.Less(t, testing.AllocsPerRun(100, func() { CheckHealth(ten, nil) }), 50.0, "conditions that say nothing of health are not taken apart")
}

func TestHealthOfSensitiveObjectsSaysNothing(t *testing.T) {
	const value = "hunter2"
	quoting := `,"status":{"observedGeneration":"` + value + `","conditions":[{"type":"Ready","status":"False","message":"` + value + `"}]}`
	cases := map[string]struct {
		reason     string
		apiVersion string
		kind       string
		more       string
		sensitive  bool
		want       Health
	}{
		"Secret":   {"Nothing of a Secret is read.", "v1", "Secret", `,"data":{"a":"` + value + `"}` + quoting, false, Health{Status: status.CurrentStatus}},
		"Error":    {"An error quotes what it found.", "example.com/v1", "Widget", quoting, true, Health{Status: status.UnknownStatus, Sensitive: true}},
		"Quotes":   {"A controller may quote a value.", "example.com/v1", "Widget", strings.Replace(quoting, `"`+value+`"`, `2`, 1), true, Health{Status: status.InProgressStatus, Sensitive: true}},
		"NotAtAll": {"Others are told of.", "example.com/v1", "Widget", strings.Replace(quoting, `"`+value+`"`, `2`, 1), false, Health{Status: status.InProgressStatus, Message: value}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := ofKind(t, tc.apiVersion, tc.kind, tc.more)
			if tc.sensitive {
				u.SetAnnotations(map[string]string{ownership.SensitiveAnnotation: "true"})
			}
			require.Equal(t, tc.want, CheckHealth(u, nil), tc.reason)
		})
	}
}

func TestHealthOfWhatIsNoSnapshot(t *testing.T) {
	for _, kept := range []any{nil, "text", (*Snapshot)(nil), configMap("blue", "1")} {
		health, ok := CheckedHealthOf(kept, nil)
		require.False(t, ok, "%T", kept)
		require.Zero(t, health)
	}
}

// TestChecksSeeNoWithheldValues: an expression finds out no value of an object whose values are withheld.
func TestChecksSeeNoWithheldValues(t *testing.T) {
	object := func(kind string, annotations map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": "page", "labels": map[string]any{"a": "b"}, "annotations": annotations,
				"managedFields": []any{map[string]any{"manager": "kubectl", "fieldsV1": map[string]any{"f:words": map[string]any{`v:"secret"`: map[string]any{}}}}}},
			"data": map[string]any{"token": "c2VjcmV0"},
		}}
	}
	sensitive := map[string]any{ownership.SensitiveAnnotation: "true", "copy": "secret"}
	for name, tc := range map[string]struct {
		object *unstructured.Unstructured
		known  bool
	}{
		"Secret": {object("Secret", nil), false}, "sensitive": {object("ConfigMap", sensitive), false}, "other": {object("ConfigMap", nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			health := func(current string) status.Status {
				checks := healthcheck.Compile([]v1alpha1.HealthCheck{{APIVersion: "v1", Kind: "Secret", Current: current}}, nil)
				require.NoError(t, checks.Err())
				return CheckHealth(tc.object, checks.For(schema.GroupKind{Kind: "Secret"})).Status
			}
			require.Equal(t, status.CurrentStatus, health("metadata.labels.a == 'b' && metadata.name == 'page'"))
			require.Equal(t, tc.known, health("data.token.startsWith('c2')") == status.CurrentStatus)
			require.NotEqual(t, status.CurrentStatus, health("metadata.annotations.copy == 'secret'"))
			require.Equal(t, tc.known, health(`metadata.managedFields[0].fieldsV1['f:words'].exists(v, v.contains('secret'))`) == status.CurrentStatus, "the items of sets are in their paths")
		})
	}
}
