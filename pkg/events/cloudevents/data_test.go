package cloudevents

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// changedAt is a time with a zone of its own.
var changedAt = time.Date(2026, 1, 31, 12, 0, 0, 0, time.FixedZone("", 3600))

func TestCloudEvent(t *testing.T) {
	cases := map[string]struct {
		reason  string
		changes []events.Change
		subject string
		data    string
	}{
		"Restored": {
			reason: "The object is the subject, and each field is told in full.",
			changes: []events.Change{{Action: events.Restored, Object: deployment, Fields: []ownership.Change{{
				Path: `spec.template.spec.containers[name="web"].image`, Kind: ownership.Changed, Found: `"a&b"`, Restored: `"c"`,
				Manager: "kubectl-edit", Operation: "Update", Subresource: "scale", Time: changedAt,
			}, {Path: "spec.replicas", Pointer: "/spec/replicas", Kind: ownership.Removed, Restored: "2"}}}},
			subject: "apps/v1/Deployment/shop/web",
			data: `{"reason": "DriftCorrected", "type": "Normal", "action": "Restore",
				"note": "Deployment shop/web: reverted spec.template.spec.containers[name=\"web\"].image to \"c\"; \"kubectl-edit\" had set it to \"a&b\" through scale. Restored spec.replicas to 2; it had been removed (the API server does not record who removes a field)",
				"vidraResource": {"name": "web", "uid": "o1"},
				"object": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "d1"},
				"fields": [
					{"path": "spec.template.spec.containers[name=\"web\"].image", "kind": "Changed", "found": "\"a&b\"", "restored": "\"c\"",
					 "manager": "kubectl-edit", "operation": "Update", "subresource": "scale", "time": "2026-01-31T11:00:00Z"},
					{"path": "spec.replicas", "pointer": "/spec/replicas", "kind": "Removed", "restored": "2"}]}`,
		},
		"User": {
			reason: "Where a policy tells the user, the user is there beside the field manager.",
			changes: []events.Change{{Action: events.Restored, Object: deployment, Fields: []ownership.Change{{
				Path: "spec.paused", Pointer: "/spec/paused", Kind: ownership.Changed, Found: "true", Restored: "false", User: "alice@example.com", Manager: "kubectl-edit", Operation: "Update",
			}, {Path: "spec.replicas", Kind: ownership.Removed, Restored: "2", User: "alice@example.com"}}}},
			subject: "apps/v1/Deployment/shop/web",
			data: `{"reason": "DriftCorrected", "type": "Normal", "action": "Restore",
				"note": "Deployment shop/web: reverted spec.paused to false; alice@example.com (kubectl-edit) had set it to true. Restored spec.replicas to 2; alice@example.com had removed it",
				"vidraResource": {"name": "web", "uid": "o1"},
				"object": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "d1"},
				"fields": [
					{"path": "spec.paused", "pointer": "/spec/paused", "kind": "Changed", "found": "true", "restored": "false", "user": "alice@example.com", "manager": "kubectl-edit", "operation": "Update"},
					{"path": "spec.replicas", "kind": "Removed", "restored": "2", "user": "alice@example.com"}]}`,
		},
		"Withheld": {
			reason: "No value of a sensitive object leaves, even if somebody left it in.",
			changes: []events.Change{{Action: events.Detected, Note: "left", Object: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "login"},
				Fields: []ownership.Change{{Path: "data.password", Kind: ownership.Changed, Found: "hunter2", Restored: "hunter2", Withheld: true}}}},
			subject: "v1/Secret/shop/login",
			data: `{"reason": "DriftDetected", "type": "Warning", "action": "Detect", "note": "Secret shop/login: left",
				"vidraResource": {"name": "web", "uid": "o1"},
				"object": {"apiVersion": "v1", "kind": "Secret", "namespace": "shop", "name": "login"},
				"fields": [{"path": "data.password", "kind": "Changed", "withheld": true}]}`,
		},
		"ClusterScoped": {
			reason:  "What has no namespace leaves it out, and no name makes the path ambiguous.",
			changes: []events.Change{{Action: events.Settled, Object: corev1.ObjectReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "a:b c?ä"}}},
			subject: "rbac.authorization.k8s.io/v1/ClusterRole/a:b%20c%3F%C3%A4",
			data: `{"reason": "DriftSettled", "type": "Normal", "action": "Restore", "note": "ClusterRole a:b c?ä: no longer contended: no other writer has changed it for a minute",
				"vidraResource": {"name": "web", "uid": "o1"},
				"object": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "a:b c?ä"}}`,
		},
		"APIVersion": {
			reason:  "No header may hold a line break, and another client may have written the status.",
			changes: []events.Change{{Action: events.Settled, Object: corev1.ObjectReference{APIVersion: "a\n/v1", Kind: "B", Name: "c"}}},
			subject: "a%0A/v1/B/c",
			data: `{"reason": "DriftSettled", "type": "Normal", "action": "Restore", "note": "B c: no longer contended: no other writer has changed it for a minute",
				"vidraResource": {"name": "web", "uid": "o1"},
				"object": {"apiVersion": "a\n/v1", "kind": "B", "name": "c"}}`,
		},
		"Owner": {
			reason:  "What is about many objects is about their VidraResource, and has each of them.",
			changes: []events.Change{{Action: events.Created, Object: deployment}, {Action: events.Configured, Object: corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "shop"}}},
			subject: "infrahub.operators.com/v1alpha1/VidraResource/web",
			data: `{"reason": "Applied", "type": "Normal", "action": "Apply", "note": "Applied the manifest: 1 created, 1 changed. Created Deployment shop/web. Changed Namespace shop",
				"vidraResource": {"name": "web", "uid": "o1"},
				"objects": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "d1", "action": "Created"},
					{"apiVersion": "v1", "kind": "Namespace", "name": "shop", "action": "Configured"}]}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			told := events.Transitions(owner, v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{}, tc.changes)
			ce, err := encode(told[0], "id-1", changedAt)
			require.NoError(t, err, tc.reason)
			require.NoError(t, ce.Validate())
			require.Equal(t, "1.0", ce.SpecVersion())
			require.Equal(t, "id-1", ce.ID())
			require.Equal(t, changedAt.UTC(), ce.Time())
			require.Equal(t, "com.operators.infrahub.vidraresource.v1."+told[0].Reason, ce.Type())
			require.Equal(t, "/apis/"+v1alpha1.GroupVersion.String()+"/vidraresources/web", ce.Source())
			require.Equal(t, tc.subject, ce.Subject(), tc.reason)
			require.Equal(t, event.ApplicationJSON, ce.DataContentType())
			require.Empty(t, ce.DataSchema())
			require.JSONEq(t, tc.data, string(ce.Data()), tc.reason)
		})
	}
}

// TestCloudEventsHaveAllObjects: the objects of a large apply are in several CloudEvents, each
// below the limit, and none is missing.
func TestCloudEventsHaveAllObjects(t *testing.T) {
	var changes []events.Change
	for i := range 3000 {
		object := deployment
		object.Name = fmt.Sprint("web-", i)
		changes = append(changes, events.Change{Action: events.Created, Object: object})
	}
	told := events.Transitions(owner, v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{}, changes)
	require.Len(t, told, 1)
	names := map[string]bool{}
	parts := split(told[0])
	require.Greater(t, len(parts), 1)
	require.Less(t, len(parts), 30, "so that many fit into the queue")
	for _, part := range parts {
		ce, err := encode(part, "id-1", changedAt)
		require.NoError(t, err)
		require.Less(t, len(ce.Data()), 60<<10)
		data := Data{}
		require.NoError(t, json.Unmarshal(ce.Data(), &data))
		require.Equal(t, told[0].Note, data.Note)
		for _, o := range data.Objects {
			names[o.Name] = true
		}
	}
	require.Len(t, names, len(changes))
}

func TestCloudEventIsBounded(t *testing.T) {
	const most = 64 << 10
	many := make([]ownership.Change, 10_000)
	for i := range many {
		many[i] = ownership.Change{Path: strings.Repeat(`"`, 100), Found: strings.Repeat(`"`, 80), Restored: strings.Repeat(`"`, 80), Manager: "m", Time: changedAt}
	}
	e := events.Event{Type: corev1.EventTypeNormal, Reason: events.ReasonDriftCorrected, Note: strings.Repeat("\x01", 1<<20), Regarding: owner, Related: &deployment, Fields: many}
	ce, err := encode(e, "id-1", changedAt)
	require.NoError(t, err)
	require.Less(t, len(ce.Data()), most-4096, "there is room for the attributes")
	data := Data{}
	require.NoError(t, json.Unmarshal(ce.Data(), &data))
	require.Greater(t, len(data.Fields), 10)
	require.Equal(t, len(many), len(data.Fields)+data.FieldsOmitted)
}

// TestCloudEventsPage reads the example of the page that is the schema: Vidra makes
// it so.
func TestCloudEventsPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/cloudevents.md")
	require.NoError(t, err)
	_, example, found := strings.Cut(string(page), "```json\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "```")
	data := Data{}
	require.NoError(t, json.Unmarshal([]byte(example), &data))
	again, err := json.Marshal(data)
	require.NoError(t, err)
	require.JSONEq(t, example, string(again), "it has no other members")
	members, err := json.Marshal(Data{
		Object: &DataObject{Namespace: "a", UID: "a"}, Objects: []DataObject{{Action: "a"}}, VidraResource: DataOwner{UID: "a"}, FieldsOmitted: 1,
		Fields: []DataField{{
			Pointer: "a", Kind: "a", Found: "a", Restored: "a", Manager: "a", Operation: "a", Subresource: "a", Time: &changedAt, Withheld: true,
		}},
	})
	require.NoError(t, err)
	for _, member := range regexp.MustCompile(`"(\w+)":`).FindAllSubmatch(members, -1) {
		require.Regexp(t, "`"+string(member[1])+"(\\[\\])?`", string(page), "the page explains every member")
	}
}
