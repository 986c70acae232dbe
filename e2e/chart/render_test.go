package chart

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// objects are rendered objects by "Kind namespace/name".
type objects map[string]*unstructured.Unstructured

// byID returns objects by their kind, namespace and name.
func byID(t *testing.T, objs []*unstructured.Unstructured) objects {
	t.Helper()
	all := objects{}
	for _, obj := range objs {
		id := fmt.Sprintf("%s %s/%s", obj.GetKind(), obj.GetNamespace(), obj.GetName())
		require.NotContains(t, all, id)
		all[id] = obj
	}
	return all
}

// renderChart returns what `helm template` prints with some values, as flags of helm.
func renderChart(t *testing.T, namespace string, flags ...string) objects {
	t.Helper()
	return renderFrom(t, filepath.Join(config, "chart"), namespace, flags...)
}

// renderFrom does what renderChart does with another chart.
func renderFrom(t *testing.T, chart, namespace string, flags ...string) objects {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), helmBinary, append([]string{"template", "vidra", chart, "--namespace=" + namespace}, flags...)...)
	text, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		require.NoError(t, err, "%q: %s", flags, failed.Stderr)
	}
	require.NoError(t, err)
	return byID(t, parse(t, string(text)))
}

// parse returns the objects of a file.
func parse(t *testing.T, text string) (objs []*unstructured.Unstructured) {
	t.Helper()
	decoder := utilyaml.NewYAMLToJSONDecoder(strings.NewReader(text))
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		if errors.Is(err, io.EOF) {
			return objs
		}
		require.NoError(t, err)
		if len(obj.Object) > 0 {
			objs = append(objs, obj)
		}
	}
}

// overlay is a kustomization of a user.
type overlay struct {
	Namespace  string   `json:"namespace,omitempty"`
	NameSuffix string   `json:"nameSuffix,omitempty"`
	Resources  []string `json:"resources"`
	Components []string `json:"components,omitempty"`
	Patches    []any    `json:"patches,omitempty"`
}

// render returns the objects of an overlay, whose folders are below config.
func (o overlay) render(t *testing.T) objects {
	t.Helper()
	dir := t.TempDir()
	for _, folders := range [][]string{o.Resources, o.Components} {
		for i, folder := range folders {
			relative, err := filepath.Rel(dir, filepath.Join(config, folder))
			require.NoError(t, err)
			folders[i] = relative
		}
	}
	text, err := yaml.Marshal(o)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), text, 0o600))
	objs, err := testenv.Render(dir)
	require.NoError(t, err)
	for _, obj := range objs {
		// Kustomize takes these for namespaced objects. The API server drops the namespace.
		if strings.Contains(obj.GetKind(), "AdmissionPolicy") {
			obj.SetNamespace("")
		}
	}
	return byID(t, objs)
}

// east is what config/installation does to another folder.
func east(folder string) overlay {
	return overlay{
		Namespace: "vidra-east", NameSuffix: "-east", Resources: []string{folder},
		Patches: []any{map[string]any{
			"target": map[string]string{"kind": "Deployment", "name": "vidra-operator"},
			"patch":  `[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--installation=east"}]`,
		}},
	}
}

// TestChartIsKustomize renders each choice with helm and with kustomize, and requires that the
// objects are the same. Only kustomize has a Namespace, and only helm keeps the
// CustomResourceDefinition when it uninstalls the rest.
func TestChartIsKustomize(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason    string
		namespace string
		flags     []string
		overlay   overlay
	}{
		"default": {
			reason:  "the values are those of config/default",
			overlay: overlay{Resources: []string{"default"}},
		},
		"restricted": {
			reason: "one value takes what config/restricted takes", flags: []string{"--set=restricted=true"},
			overlay: overlay{Resources: []string{"restricted"}},
		},
		"installation": {
			reason: "the names have a suffix", namespace: "vidra-east", flags: []string{"--set=installation=east"},
			overlay: overlay{Resources: []string{"installation"}},
		},
		"restricted installation": {
			reason: "the binding names the policy with the suffix", namespace: "vidra-east",
			flags: []string{"--set=installation=east,restricted=true"}, overlay: east("restricted"),
		},
		"namespaces": {
			reason: "a Role in each namespace instead of rights on the whole cluster", flags: []string{"--set=namespaces={team-a,team-b}"},
			overlay: overlay{Resources: []string{"namespaced"}},
		},
		"namespaces of an installation": {
			reason: "the suffix is that of the Roles, too", flags: []string{"--set=namespaces={team-a,team-b},installation=east"},
			overlay: overlay{NameSuffix: "-east", Resources: []string{"namespaced"}, Patches: east("").Patches},
		},
		"shards": {
			reason:  "a Deployment for each shard, with the rights of the first one",
			flags:   []string{"--set-string=watchLabelSelector=!sharding.fluxcd.io/key", "--set=shards[0].name=shard1,shards[0].selector=sharding.fluxcd.io/key=shard1"},
			overlay: overlay{Resources: []string{"shards"}},
		},
		"high availability": {
			reason: "a component", flags: []string{"--set=replicas=2"},
			overlay: overlay{Resources: []string{"default"}, Components: []string{"components/high-availability"}},
		},
		"webhooks": {
			reason: "a component with a Service, a port and a Secret", flags: []string{"--set=infrahub.webhook.enabled=true"},
			overlay: overlay{Resources: []string{"default"}, Components: []string{"components/infrahub-webhook"}},
		},
		"published artifacts": {
			reason: "a component with a Service, a port and rights", flags: []string{"--set=infrahub.publish.enabled=true"},
			overlay: overlay{Resources: []string{"default"}, Components: []string{"components/infrahub-publish"}},
		},
		"restricted with Infrahub": {
			reason: "a component that turns a flag and its rights on again", flags: []string{"--set=restricted=true,infrahub.enabled=true"},
			overlay: overlay{Resources: []string{"restricted"}, Components: []string{"components/infrahub"}},
		},
		"network policy": {
			reason: "a component", flags: []string{"--set=networkPolicy.enabled=true"},
			overlay: overlay{Resources: []string{"default"}, Components: []string{"components/network-policy"}},
		},
		"service monitor": {
			reason: "a component", flags: []string{"--set=serviceMonitor.enabled=true"},
			overlay: overlay{Resources: []string{"default"}, Components: []string{"components/service-monitor"}},
		},
		"prometheus rule": {
			reason: "a component", flags: []string{"--set=prometheusRule.enabled=true"},
			overlay: overlay{Resources: []string{"default"}, Components: []string{"components/prometheus-rule"}},
		},
		"grafana dashboard": {
			reason: "a component", flags: []string{"--set=grafanaDashboard.enabled=true"},
			overlay: overlay{Resources: []string{"default"}, Components: []string{"components/grafana-dashboard"}},
		},
		"warn": {
			reason: "a policy", flags: []string{"--set=policies.warn.enabled=true"},
			overlay: overlay{Resources: []string{"default"}, Components: []string{"policies/warn"}},
		},
		"warn without scale": {
			reason: "a policy that needs no cache of the API server, as in docs/policies.md", flags: []string{"--set=policies.warn.enabled=true,policies.warn.scale=false"},
			overlay: overlay{Resources: []string{"default"}, Components: []string{"policies/warn"}, Patches: []any{map[string]any{
				"target": map[string]string{"name": "vidra-warn-.*-scale"},
				"patch":  `{"$patch": "delete", "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "any"}}`,
			}}},
		},
		"deny": {
			reason: "a policy, from which a user is exempt", flags: []string{"--set=policies.deny.enabled=true,policies.exemptUsers={robot@example.com}"},
			overlay: overlay{Resources: []string{"default"}, Components: []string{"policies/deny"}, Patches: []any{map[string]any{
				"target": map[string]string{"kind": "ValidatingAdmissionPolicy", "name": "vidra-(warn.*|deny)"},
				"patch":  `[{"op": "replace", "path": "/spec/variables/0/expression", "value": "[\"robot@example.com\"]"}]`,
			}}},
		},
		"stamp": {
			reason: "a policy, and the flag of the operator that trusts it", flags: []string{"--set=policies.stamp.enabled=true"},
			overlay: overlay{Resources: []string{"default"}, Components: []string{"policies/stamp"}},
		},
		"policies of an installation": {
			reason: "the bindings name the policies with the suffix", namespace: "vidra-east",
			flags: []string{"--set=installation=east,policies.warn.enabled=true,policies.stamp.enabled=true,policies.deny.enabled=true"},
			overlay: overlay{
				Namespace: "vidra-east", NameSuffix: "-east", Resources: []string{"default"},
				Components: []string{"policies/warn", "policies/stamp", "policies/deny"}, Patches: east("default").Patches,
			},
		},
		"all": {
			reason:  "components can be combined",
			flags:   []string{"--set=restricted=true,infrahub.enabled=true,infrahub.publish.enabled=true,infrahub.webhook.enabled=true,replicas=2,networkPolicy.enabled=true,serviceMonitor.enabled=true,prometheusRule.enabled=true,grafanaDashboard.enabled=true,policies.warn.enabled=true,policies.stamp.enabled=true,policies.deny.enabled=true"},
			overlay: overlay{Resources: []string{"restricted"}, Components: components(t)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := tt.namespace
			if namespace == "" {
				namespace = testenv.OperatorNamespace
			}
			want := tt.overlay.render(t)
			require.Contains(t, want, "Namespace /"+namespace)
			delete(want, "Namespace /"+namespace)
			got := renderChart(t, namespace, tt.flags...)
			for _, name := range []string{crdName, "infrahubsyncs.infrahub.operators.com"} {
				crd := got["CustomResourceDefinition /"+name]
				require.NotNil(t, crd)
				annotations := crd.GetAnnotations()
				require.Equal(t, "keep", annotations["helm.sh/resource-policy"])
				delete(annotations, "helm.sh/resource-policy")
				crd.SetAnnotations(annotations)
			}
			dropOverridden(t, want["Deployment "+namespace+"/vidra-operator"])
			for id := range want {
				require.Contains(t, got, id, tt.reason)
				require.Equal(t, want[id].Object, got[id].Object, "%s: %s", id, tt.reason)
			}
			require.Len(t, got, len(want), tt.reason)
		})
	}
}

// dropOverridden removes --infrahub=false, and the later --infrahub=true, from the arguments of a Deployment: a component can only add a flag, of
// which the last one counts, and it is the default.
func dropOverridden(t *testing.T, deployment *unstructured.Unstructured) {
	t.Helper()
	if deployment == nil {
		return // it has another name
	}
	containers, found, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	require.NoError(t, err)
	require.True(t, found)
	operator, _ := containers[0].(map[string]any)
	args, _ := operator["args"].([]any)
	off, on := slices.Index(args, any("--infrahub=false")), slices.Index(args, any("--infrahub=true"))
	if on < 0 {
		return
	}
	require.Less(t, off, on)
	operator["args"] = slices.Delete(slices.Delete(args, on, on+1), off, off+1)
	require.NoError(t, unstructured.SetNestedSlice(deployment.Object, containers, "spec", "template", "spec", "containers"))
}

// crdName is the name of the CustomResourceDefinition.
const crdName = "vidraresources.infrahub.operators.com"

// components returns the folders of all components of kustomize, below config.
func components(t *testing.T) (folders []string) {
	t.Helper()
	for _, parent := range []string{"components", "policies"} {
		found, err := filepath.Glob(filepath.Join(config, parent, "*", "kustomization.yaml"))
		require.NoError(t, err)
		require.NotEmpty(t, found)
		for _, file := range found {
			folders = append(folders, filepath.Join(parent, filepath.Base(filepath.Dir(file))))
		}
	}
	return folders
}
