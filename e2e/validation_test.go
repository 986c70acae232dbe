package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestVidraResourceValidation sends VidraResources to the API server and looks
// at what it makes of them. Nothing is kept.
func TestVidraResourceValidation(t *testing.T) {
	t.Parallel()
	// JSON paths below spec, and the values that the API server must answer.
	type fields map[string]any
	tests := map[string]struct {
		reason  string
		spec    string
		want    fields
		wantErr string
	}{
		"first operator": {
			reason: "a manifest written for the first Vidra operator applies unchanged",
			spec: `
destination:
  server: https://kubernetes.default.svc
  namespace: default
  reconcileOnEvents: false
manifest: '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}'
reconciledAt: "2025-06-01T12:00:00Z"`,
			want: fields{
				"destination":  map[string]any{"server": "https://kubernetes.default.svc", "namespace": "default", "reconcileOnEvents": false},
				"manifest":     `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`,
				"reconciledAt": "2025-06-01T12:00:00Z",
			},
		},
		"no time stamp": {
			reason: "the first operator's types write null where it never reconciled",
			spec:   `reconciledAt: null`,
			want:   fields{},
		},
		"defaults": {
			reason: "events are on by default; the operator has the default of the interval",
			spec:   `manifest: ""`,
			want: fields{
				"destination": map[string]any{"reconcileOnEvents": true},
			},
		},
		"no spec": {
			reason: "the defaults do not need a spec",
			spec:   `{}`,
			want:   fields{"destination": map[string]any{"reconcileOnEvents": true}},
		},
		"partial destination": {
			reason: "nor a complete destination",
			spec:   `{destination: {namespace: web}}`,
			want:   fields{"destination": map[string]any{"namespace": "web", "reconcileOnEvents": true}},
		},
		"interval at the limit": {
			reason: "ten seconds are allowed, in any notation",
			spec:   `interval: 10000ms`,
			want:   fields{"interval": "10000ms"},
		},
		"short interval": {
			reason:  "the API server is not to be polled",
			spec:    `interval: 5s`,
			wantErr: "interval must be at least 10s",
		},
		"no interval": {
			reason:  "a word is not a duration",
			spec:    `interval: often`,
			wantErr: "spec.interval",
		},
		"bad namespace": {
			reason:  "a name that no namespace can have is a mistake",
			spec:    `{destination: {namespace: Web_1}}`,
			wantErr: "namespace must be a DNS label",
		},
		"bad server": {
			reason:  "an address with a space in it is a mistake",
			spec:    `{destination: {server: "https://a b"}}`,
			wantErr: "server must not contain white space",
		},
		"account with a namespace": {
			reason:  "a ServiceAccount is named without its namespace",
			spec:    `{destination: {namespace: web}, serviceAccountName: "web:deployer"}`,
			wantErr: "serviceAccountName must be the name of a ServiceAccount",
		},
		"bad source": {
			reason:  "no ConfigMap can have the name",
			spec:    `{manifestFrom: [{kind: ConfigMap, name: My_Parts, key: a.yaml}]}`,
			wantErr: "name must be the name of an object",
		},
		"bad namespace of a source": {
			reason:  "no namespace can have the name",
			spec:    `{manifestFrom: [{kind: ConfigMap, name: parts, namespace: a.b, key: a.yaml}]}`,
			wantErr: "namespace must be a DNS label",
		},
		"bad key of a source": {
			reason:  "no ConfigMap can have the key",
			spec:    `{manifestFrom: [{kind: ConfigMap, name: parts, key: a/b}]}`,
			wantErr: "key must be one of data",
		},
		"ConfigMap without a key": {
			reason:  "a ConfigMap may have several",
			spec:    `{manifestFrom: [{kind: ConfigMap, name: parts}]}`,
			wantErr: "a ConfigMap or Secret needs key",
		},
		"source of Flux with a key": {
			reason:  "an artifact has no keys",
			spec:    `{manifestFrom: [{kind: GitRepository, name: app, key: a}]}`,
			wantErr: "a ConfigMap or Secret needs key, and the other kinds have none",
		},
		"ConfigMap with a path": {
			reason:  "a ConfigMap has no paths",
			spec:    `{manifestFrom: [{kind: ConfigMap, name: parts, key: a, path: b}]}`,
			wantErr: "path is for sources of Flux",
		},
		"optional source of Flux": {
			reason:  "its objects would be removed while Flux is away",
			spec:    `{manifestFrom: [{kind: GitRepository, name: app, optional: true}]}`,
			wantErr: "optional is for ConfigMaps and Secrets",
		},
		"path out of the artifact": {
			reason:  "nothing else is read",
			spec:    `{manifestFrom: [{kind: GitRepository, name: app, path: a/../../b}]}`,
			wantErr: "path must be within the artifact",
		},
		"kustomize without a source of Flux": {
			reason:  "it would have no effect",
			spec:    `{manifestFrom: [{kind: ConfigMap, name: parts, key: a}], kustomize: {namePrefix: a-}}`,
			wantErr: "kustomize changes the objects of sources of Flux alone",
		},
		"namespace of kustomize": {
			reason:  "no namespace can have the name",
			spec:    `{manifestFrom: [{kind: GitRepository, name: app}], kustomize: {targetNamespace: A_B}}`,
			wantErr: "targetNamespace must be a DNS label",
		},
		"name of variables": {
			reason:  "no ConfigMap can have the name",
			spec:    `{manifestFrom: [{kind: GitRepository, name: app}], kustomize: {substituteFrom: [{kind: ConfigMap, name: A_B}]}}`,
			wantErr: "name must be the name of a ConfigMap or Secret",
		},
		"dependency without a name": {
			reason:  "a dependency is named",
			spec:    `{dependsOn: [{name: ""}]}`,
			wantErr: "spec.dependsOn[0].name",
		},
		"bad dependency": {
			reason:  "no VidraResource can have the name",
			spec:    `{dependsOn: [{name: My_Base}]}`,
			wantErr: "name must be the name of a VidraResource",
		},
		"RevisionWithoutHold": {
			reason:  "The manifest of the spec waits while an earlier revision is applied, so the spec says so.",
			spec:    `{revision: {to: 2}}`,
			wantErr: "to needs hold: true",
		},
		"RevisionZero": {
			reason:  "Revisions are counted from 1.",
			spec:    `{revision: {hold: true, to: 0}}`,
			wantErr: "spec.revision.to",
		},
		"EarlierRevision": {
			reason: "An earlier revision is applied and held.",
			spec:   `{revision: {hold: true, to: 2}}`,
			want:   fields{"revision": map[string]any{"hold": true, "to": int64(2)}},
		},
		"ManyRevisions": {
			reason:  "Each revision takes room in the cluster.",
			spec:    `{revisionHistoryLimit: 21}`,
			wantErr: "spec.revisionHistoryLimit",
		},
		"two dependencies of one name": {
			reason:  "one is enough",
			spec:    `{dependsOn: [{name: base}, {name: base}]}`,
			wantErr: "Duplicate value",
		},
		"dependencies": {
			reason: "they need not exist",
			spec:   `{dependsOn: [{name: base}, {name: other.base}]}`,
			want:   fields{"dependsOn": []any{map[string]any{"name": "base"}, map[string]any{"name": "other.base"}}},
		},
		"check without current": {
			reason:  "no object would ever be healthy",
			spec:    `{healthChecks: [{apiVersion: example.com/v1, kind: Widget, failed: "true"}]}`,
			wantErr: "spec.healthChecks[0].current",
		},
		"check of no kind": {
			reason:  "no kind can have the name",
			spec:    `{healthChecks: [{apiVersion: example.com/v1, kind: widgets.example.com, current: "true"}]}`,
			wantErr: "kind must be a kind",
		},
		"check of no version": {
			reason:  "it would match nothing",
			spec:    `{healthChecks: [{apiVersion: Example/v1/x, kind: Widget, current: "true"}]}`,
			wantErr: "apiVersion must be a group and a version",
		},
		"two checks of one kind": {
			reason:  "one decides",
			spec:    `{healthChecks: [{apiVersion: v1, kind: Service, current: "true"}, {apiVersion: v1, kind: Service, current: "false"}]}`,
			wantErr: "Duplicate value",
		},
		"long expression": {
			reason:  "it is compiled for each VidraResource",
			spec:    `{healthChecks: [{apiVersion: v1, kind: Service, current: "` + strings.Repeat("a", 1025) + `"}]}`,
			wantErr: "spec.healthChecks[0].current",
		},
		"health checks": {
			reason: "as Flux has them",
			spec:   `{healthChecks: [{apiVersion: example.com/v1, kind: Widget, current: "status.phase == 'Bound'", inProgress: "false", failed: "false"}]}`,
			want:   fields{"healthChecks": []any{map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "current": "status.phase == 'Bound'", "inProgress": "false", "failed": "false"}}},
		},
		"unknown field": {
			reason:  "a misspelled field is not dropped in silence",
			spec:    `{destination: {nameSpace: web}}`,
			wantErr: `unknown field "spec.destination.nameSpace"`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			spec := map[string]any{}
			require.NoError(t, yaml.Unmarshal([]byte(tt.spec), &spec))
			v := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "infrahub.operators.com/v1alpha1",
				"kind":       "VidraResource",
				"metadata":   map[string]any{"generateName": "validation-"},
				"spec":       spec,
			}}
			err := admin.Create(t.Context(), v, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr, tt.reason)
				require.True(t, apierrors.IsInvalid(err) || apierrors.IsBadRequest(err))
				return
			}
			require.NoError(t, err, tt.reason)
			got, ok := v.Object["spec"].(map[string]any)
			require.True(t, ok)
			for path, want := range tt.want {
				require.Equal(t, want, got[path], "%s: spec.%s", tt.reason, path)
			}
		})
	}
}
