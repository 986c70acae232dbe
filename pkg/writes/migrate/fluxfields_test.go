package migrate

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestFluxFields maps each field of a Kustomization.
func TestFluxFields(t *testing.T) {
	const source = "sourceRef: {kind: GitRepository, name: app}\nprune: true\n"
	tests := map[string]struct {
		reason string
		// from is the spec of the Kustomization beside source, and want the one of the VidraResource beside that of source.
		from, want string
		// finding is the field of the finding, and severity its effect; empty for none.
		finding  string
		severity Severity
	}{
		"path":                {"relative to the artifact", "path: ./deploy/", "manifestFrom: [{kind: GitRepository, name: app, path: deploy}]", "", ""},
		"root":                {"the whole artifact", "path: ./", "{}", "", ""},
		"build":               {"as they are", "patches: [{patch: x}]\nimages: [{name: a, newTag: b}]\nnamePrefix: a-\nnameSuffix: -b\ncomponents: [c]\nignoreMissingComponents: true\ntargetNamespace: d\ncommonMetadata: {labels: {e: f}}", "kustomize: {patches: [{patch: x}], images: [{name: a, newTag: b}], namePrefix: a-, nameSuffix: -b, components: [c], ignoreMissingComponents: true, targetNamespace: d, commonMetadata: {labels: {e: f}}}", "", ""},
		"variables":           {"one level higher", "postBuild: {substitute: {a: b}, substituteFrom: [{kind: Secret, name: c, optional: true}], substituteStrategy: Always}", "kustomize: {substitute: {a: b}, substituteFrom: [{kind: Secret, name: c, optional: true}]}", "", ""},
		"no variables":        {"Flux substitutes all the same", "postBuild: {substituteStrategy: Always}", "{}", "postBuild", Acceptable},
		"empty":               {"it has no effect", "patches: []\npath: \"\"\nwait: null", "{}", "", ""},
		"namespace":           {"the same one", "sourceRef: {kind: GitRepository, name: app, namespace: shop}", "{}", "", ""},
		"other namespace":     {"which the operator must permit", "sourceRef: {kind: Bucket, name: app, namespace: other}", "manifestFrom: [{kind: Bucket, name: app, namespace: other}]", "sourceRef", Acceptable},
		"no prune":            {"nor a removal with the VidraResource", "prune: false", "{prune: false, deletionPolicy: Orphan}", "", ""},
		"orphan":              {"the policy counts", "deletionPolicy: Orphan", "{deletionPolicy: Orphan}", "", ""},
		"deletes":             {"without prune", "prune: false\ndeletionPolicy: Delete", "{prune: false}", "", ""},
		"termination":         {"Vidra always waits", "deletionPolicy: WaitForTermination", "{}", "deletionPolicy", Note},
		"interval":            {"of the comparison", "interval: 5m", "interval: 5m", "", ""},
		"short interval":      {"there is a shortest one", "interval: 1s", "interval: 10s", "interval", Note},
		"wait":                {"for all objects", "wait: true\nserviceAccountName: apps", "{wait: true, serviceAccountName: apps}", "", ""},
		"force":               {"with an exception", "force: true", "force: true", "force", Note},
		"no force":            {"the default", "force: false\nsuspend: false", "{}", "", ""},
		"health":              {"of all objects", "healthChecks: [{kind: Deployment, name: web}]", "wait: true", "healthChecks", Acceptable},
		"health with wait":    {"Flux ignores the list", "wait: true\nhealthChecks: [{kind: Deployment, name: web}]", "wait: true", "", ""},
		"expressions":         {"with the same fields", "healthCheckExprs: [{kind: Widget, apiVersion: a/v1, current: x}]", "healthChecks: [{kind: Widget, apiVersion: a/v1, current: x}]", "", ""},
		"moved dependency":    {"by its VidraResource", "dependsOn: [{name: moved}]", "dependsOn: [{name: moved-vr}]", "", ""},
		"unmoved dependency":  {"there is no VidraResource", "dependsOn: [{name: moved}, {name: base, namespace: infra}]", "dependsOn: [{name: moved-vr}]", "dependsOn", Acceptable},
		"expression":          {"of a dependency", "dependsOn: [{name: moved, readyExpr: x}]", "dependsOn: [{name: moved-vr}]", "dependsOn", Acceptable},
		"times":               {"without effect on objects", "retryInterval: 1m", "{}", "retryInterval", Note},
		"another cluster":     {"it is not moved", "kubeConfig: {secretRef: {name: a}}", "{}", "kubeConfig", Refused},
		"decryption":          {"Vidra decrypts nothing", "decryption: {provider: sops}", "{}", "decryption", Acceptable},
		"suspended":           {"a VidraResource applies", "suspend: true", "{}", "suspend", Acceptable},
		"ignore":              {"a rule with the same fields", "ignore: [{paths: [/spec/replicas], target: {kind: Deployment}}]", "drift: {ignore: [{paths: [/spec/replicas], target: {kind: Deployment}}]}", "", ""},
		"ignore by label":     {"no counterpart", "ignore: [{paths: [/spec/replicas], target: {labelSelector: a=b}}]", "{}", "ignore", Acceptable},
		"build metadata":      {"annotations stay", "buildMetadata: [originAnnotations]", "{}", "buildMetadata", Acceptable},
		"field of the future": {"it is never ignored", "novelty: true", "{}", "novelty", Acceptable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			parse := func(texts ...string) map[string]any {
				all := map[string]any{}
				for _, text := range texts {
					one := map[string]any{}
					require.NoError(t, yaml.Unmarshal([]byte(text), &one))
					for key, value := range one {
						all[key] = value
					}
				}
				return all
			}
			m := &fluxMapper{plan: &Plan{}, namespace: "shop", from: parse(source, tt.from), moved: func(namespace, name string) string {
				if namespace == "shop" && name == "moved" {
					return "moved-vr"
				}
				return ""
			}}
			m.run()
			base := "destination: {namespace: shop}\nmanifestFrom: [{kind: GitRepository, name: app}]\nprune: true\n"
			require.Equal(t, parse(base, tt.want), m.spec, tt.reason)
			if tt.finding == "" {
				require.Empty(t, m.plan.Findings, tt.reason)
				return
			}
			require.Len(t, m.plan.Findings, 1, tt.reason)
			require.Equal(t, []any{tt.finding, tt.severity}, []any{m.plan.Findings[0].Field, m.plan.Findings[0].Severity}, tt.reason)
		})
	}
}

// TestStopped: a Kustomization is stopped if neither its controller nor its deletion can remove an object.
func TestStopped(t *testing.T) {
	for name, tt := range map[string]struct {
		reason, spec, reconcile string
		want                    bool
	}{
		"stopped":     {"all of it", "{suspend: true, prune: false, deletionPolicy: Orphan}", "disabled", true},
		"old Flux":    {"which has no policy", "{suspend: true, prune: false}", "disabled", true},
		"running":     {"it applies", "{prune: false}", "disabled", false},
		"prunes":      {"when it is resumed", "{suspend: true, prune: true}", "disabled", false},
		"deletes":     {"when it is deleted", "{suspend: true, prune: false, deletionPolicy: Delete}", "disabled", false},
		"is restored": {"another Kustomization applies it", "{suspend: true, prune: false}", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			spec := map[string]any{}
			require.NoError(t, yaml.Unmarshal([]byte(tt.spec), &spec))
			u.Object["spec"] = spec
			u.SetAnnotations(map[string]string{fluxReconcile: tt.reconcile})
			require.Equal(t, tt.want, isStopped(u), tt.reason)
		})
	}
}
