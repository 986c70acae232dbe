package insight

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/insight/internal/eventtest"
)

func TestEventFilter(t *testing.T) {
	const own = "reportingController=vidra-operator"
	applied := eventtest.New("applied", "Applied", time.Hour, eventtest.Resource, nil)
	all := []*eventsv1.Event{applied, eventtest.Corrected(), eventtest.Reverted()}
	tests := map[string]struct {
		reason   string
		query    EventQuery
		selector string
		matches  []string
	}{
		"nothing": {
			reason:   "whatever Vidra said, and nobody else",
			selector: own, matches: []string{"applied", "corrected", "reverted"},
		},
		"type": {
			reason: "the server compares it", query: EventQuery{Type: "Warning"},
			selector: own + ",type=Warning", matches: []string{"applied", "corrected", "reverted"},
		},
		"one reason": {
			reason: "the server compares it", query: EventQuery{Reasons: []string{"DriftCorrected"}},
			selector: own + ",reason=DriftCorrected", matches: []string{"applied", "corrected", "reverted"},
		},
		"two reasons": {
			reason: "a selector knows no or", query: EventQuery{Reasons: []string{"Applied", "ChangeReverted"}},
			selector: own, matches: []string{"applied", "reverted"},
		},
		"VidraResource": {
			reason: "what regards it or is related to it", query: EventQuery{VidraResource: "web"},
			selector: own, matches: []string{"applied", "corrected", "reverted"},
		},
		"another VidraResource": {
			reason: "names are compared whole", query: EventQuery{VidraResource: "we"},
			selector: own,
		},
		"namespace": {
			reason: "that of the object, also where the Event is in another one", query: EventQuery{Namespace: "shop"},
			selector: own, matches: []string{"corrected", "reverted"},
		},
		"since": {
			reason: "the last time counts", query: EventQuery{Since: eventtest.Noon.Add(-10 * time.Minute)},
			selector: own, matches: []string{"corrected", "reverted"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			filter, _, err := (&Client{}).eventsOf(tt.query, nil)
			require.NoError(t, err)
			require.Equal(t, tt.selector, filter.selector().String(), tt.reason)
			var matches []string
			for _, e := range all {
				if filter.matches(e) {
					matches = append(matches, e.Name)
				}
			}
			require.Equal(t, tt.matches, matches, tt.reason)
		})
	}
}

func TestObjectName(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
	deployment := corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	vlan := corev1.ObjectReference{APIVersion: "net.example.com/v1", Kind: "Vlan", Name: "office"}
	tests := map[string]struct {
		reason  string
		text    string
		is      corev1.ObjectReference
		another bool
	}{
		"kind":              {reason: "in whatever case", text: "configmap/settings", is: eventtest.Settings},
		"resource":          {reason: "as kubectl has it", text: "deployments/web", is: deployment},
		"group":             {reason: "to tell kinds apart", text: "Deployment.apps/web", is: deployment},
		"version":           {reason: "as kubectl has it", text: "deployments.v1.apps/web", is: deployment},
		"other name":        {reason: "names are compared whole", text: "configmap/setting", is: eventtest.Settings, another: true},
		"other kind":        {reason: "names alone are not unique", text: "deployment/settings", is: eventtest.Settings, another: true},
		"not served":        {reason: "a kind that went away left Events", text: "vlan/office", is: vlan},
		"not served, group": {reason: "and can be told by its group", text: "vlan.net.example.com/office", is: vlan},
		"other group": {
			reason: "of two kinds with one name", text: "vlan.other.example.com/office", is: vlan, another: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			kind, name, _ := strings.Cut(tt.text, "/")
			object, served, err := kindFrom(mapper, kind)
			require.NoError(t, err)
			require.Equal(t, !strings.HasPrefix(kind, "vlan"), served)
			object.name = name
			require.Equal(t, !tt.another, object.matches(tt.is), tt.reason)
		})
	}
}

// TestEventsOfOneObject: kind, namespace and name belong to one object, also of an Event about several.
func TestEventsOfOneObject(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	applied := eventtest.New("applied", "Applied", time.Hour, eventtest.Resource, nil)
	applied.Annotations = map[string]string{events.ObjectsAnnotation: `[{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"settings"},` +
		`{"apiVersion":"v1","kind":"ConfigMap","namespace":"other","name":"page"},{"apiVersion":"v1","kind":"Namespace","name":"shop"}]`}
	tests := map[string]struct {
		reason                string
		kind, namespace, name string
		matches               bool
	}{
		"Named":           {"The Event is about it.", "configmap", "shop", "settings", true},
		"AnyNamespace":    {"Without a namespace, each object of the name counts.", "configmap", "", "settings", true},
		"OfTwo":           {"The namespace is that of another object.", "configmap", "other", "settings", false},
		"WithoutOne":      {"The kind has no namespace: the one of the command is ignored.", "namespace", "other", "shop", true},
		"KindOfNoCluster": {"A kind that was removed may have had namespaces.", "vlan", "other", "settings", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			query := EventQuery{Target: &Target{Kind: tt.kind, Name: tt.name}, Namespace: tt.namespace}
			filter, _, err := (&Client{mapper: mapper}).eventsOf(query, func(string) {})
			require.NoError(t, err)
			require.Equal(t, tt.matches, filter.matches(applied), tt.reason)
		})
	}
}
