package ownership

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestTools(t *testing.T) {
	t.Parallel()
	require.NoError(t, DefaultTools.Validate())
	for _, name := range []string{"kubectl", "kubectl-edit", "kubectl-client-side-apply", "kubectl-rollout", "oc", "k9s", "Mozilla", "dashboard",
		"node-fetch", "Headlamp 0.30.0 (linux", "headlamp-server", "lfk:mary", "kubewall", "k9s.exe", "kubectl-vidra"} {
		require.True(t, DefaultTools.Has(name), name)
	}
	for _, name := range append(controllers, "vidra/shop", "vidra-operator", "dashboard-controller", "k9s-operator", "HashiCorp", "Terraform", "fabric8-kubernetes-client", "Go-http-client", "unknown", ".exe", "manager.exe", "") {
		require.False(t, DefaultTools.Has(name), name)
	}
	tests := map[string]struct {
		reason string
		tools  Tools
		want   string
	}{
		"a name":     {reason: "one more tool", tools: Tools{"lens"}},
		"everything": {reason: "controllers would be reverted", tools: Tools{"kubectl", "*"}, want: "matches kube-controller-manager"},
		"kube*":      {reason: "some names begin alike", tools: Tools{"kube*"}, want: "matches kube-controller-manager"},
		"manager":    {reason: "what kubebuilder calls a controller", tools: Tools{"man*"}, want: "matches manager"},
		"bad":        {reason: "no pattern", tools: Tools{"[a"}, want: "no pattern"},
		"empty":      {reason: "no name", tools: Tools{""}, want: "no pattern"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tt.tools.Validate()
			if tt.want == "" {
				require.NoError(t, err, tt.reason)
				return
			}
			require.ErrorContains(t, err, tt.want, tt.reason)
		})
	}
}

func TestToolsDigest(t *testing.T) {
	t.Parallel()
	const manager = "vidra/shop"
	base := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"app":"web"%s},"annotations":{"a":"b"%s},"managedFields":[
		{"manager":"vidra/shop","operation":"Apply","fieldsV1":{"f:data":{"f:color":{}},"f:metadata":{"f:labels":{"f:app":{}},"f:annotations":{"f:a":{}}}}}%s]},
		"data":{"color":"red"%s},"status":{"x":1}}`
	object := func(labels, annotations, entries, data string) Digest {
		u := &unstructured.Unstructured{}
		require.NoError(t, u.UnmarshalJSON(fmt.Appendf(nil, base, labels, annotations, entries, data)))
		digest, found := DefaultTools.Digest(u, manager)
		require.Equal(t, found, digest != Digest{})
		return digest
	}
	entry := func(manager, fields string) string {
		return fmt.Sprintf(`,{"manager":%q,"operation":"Update","fieldsV1":%s}`, manager, fields)
	}
	scale := `,{"manager":"kubectl","operation":"Update","subresource":"scale","fieldsV1":{"f:data":{"f:size":{}}}}`
	none := Digest{}
	size := entry("kubectl-edit", `{"f:data":{"f:size":{}}}`)
	added := object("", "", size, `,"size":"big"`)
	require.Equal(t, none, object("", "", "", ""))
	require.NotEqual(t, none, added)
	tests := map[string]struct {
		reason string
		got    Digest
		want   Digest
	}{
		"the same":     {reason: "equal additions", got: object("", "", size, `,"size":"big"`), want: added},
		"controller":   {reason: "it is no person", got: object("", "", entry("manager", `{"f:data":{"f:size":{}}}`), `,"size":"big"`), want: none},
		"beside":       {reason: "what a controller adds makes no difference", got: object("", "", size+entry("manager", `{"f:data":{"f:other":{}}}`), `,"size":"big","other":"x"`), want: added},
		"our field":    {reason: "co-owned", got: object("", "", entry("kubectl-edit", `{"f:data":{".":{},"f:color":{}}}`), ""), want: none},
		"with ours":    {reason: "co-owned, and an addition", got: object("", "", entry("kubectl-edit", `{"f:data":{"f:color":{},"f:size":{}}}`), `,"size":"big"`), want: added},
		"order":        {reason: "of entries", got: object(`,"l":"1"`, "", entry("k9s", `{"f:metadata":{"f:labels":{"f:l":{}}}}`)+size, `,"size":"big"`), want: object(`,"l":"1"`, "", size+entry("k9s", `{"f:metadata":{"f:labels":{"f:l":{}}}}`), `,"size":"big"`)},
		"status":       {reason: "is reported, not wished", got: object("", "", entry("kubectl-edit", `{"f:status":{"f:x":{}}}`), ""), want: none},
		"subresource":  {reason: "kubectl scale", got: object("", "", scale, `,"size":"big"`), want: none},
		"restart":      {reason: "kubectl rollout restart", got: object("", `,"kubectl.kubernetes.io/restartedAt":"now"`, entry("kubectl-rollout", `{"f:metadata":{"f:annotations":{"f:kubectl.kubernetes.io/restartedAt":{}}}}`), ""), want: none},
		"break glass":  {reason: "what is said to Vidra", got: object("", `,"vidraresource.infrahub.operators.com/break-glass-until":"now"`, entry("kubectl-annotate", `{"f:metadata":{"f:annotations":{"f:vidraresource.infrahub.operators.com/break-glass-until":{}}}}`), ""), want: none},
		"not there":    {reason: "in another version", got: object("", "", size, ""), want: none},
		"dependencies": {reason: "metadata is Kubernetes' own", got: object("", "", entry("kubectl-edit", `{"f:metadata":{"f:ownerReferences":{}}}`), ""), want: none},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, tt.got, tt.reason)
		})
	}
	require.NotEqual(t, added, object("", "", size, `,"size":"small"`), "another value")
}

// TestKeptAddition lists the writes of tools that are never an addition.
func TestKeptAddition(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		path   []string
		want   bool
	}{
		"nothing":           {"the object itself", nil, false},
		"status":            {"is reported, and no configuration", []string{"status"}, true},
		"status below":      {"is reported, and no configuration", []string{"status", "phase"}, true},
		"metadata":          {"the map of all", []string{"metadata"}, false},
		"finalizers":        {"metadata is Kubernetes' own", []string{"metadata", "finalizers"}, true},
		"labels":            {"the map of labels", []string{"metadata", "labels"}, false},
		"label":             {"is an addition", []string{"metadata", "labels", "app"}, false},
		"annotation":        {"is an addition", []string{"metadata", "annotations", "app"}, false},
		"restart":           {"requests a rollout", []string{"metadata", "annotations", "kubectl.kubernetes.io/restartedAt"}, true},
		"restart of a Pod":  {"requests a rollout", []string{"spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"}, true},
		"last applied":      {"is the record of kubectl", []string{"metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"}, true},
		"for Vidra":         {"is set for Vidra", []string{"metadata", "annotations", "vidraresource.infrahub.operators.com/break-glass-until"}, true},
		"label for Vidra":   {"is set for Vidra", []string{"metadata", "labels", "infrahub.operators.com/x"}, true},
		"top of a resource": {"a custom resource may have annotations at its top", []string{"annotations", "kubernetes.io/change-cause"}, true},
		"domain alike":      {"is another domain", []string{"metadata", "annotations", "infrahub.operators.com.example.org/x"}, false},
		"field of a domain": {"is no annotation", []string{"data", "infrahub.operators.com/x"}, false},
		"field":             {"is an addition", []string{"spec", "replicas"}, false},
		"one name":          {"is an addition", []string{"data"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, KeptAddition(tt.path), tt.reason)
		})
	}
}
