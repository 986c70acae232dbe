package migrate

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestWithhold prints no patch that may have values of a Secret. What is applied keeps it.
func TestWithhold(t *testing.T) {
	tests := map[string]struct {
		reason, patch string
		withheld      bool
	}{
		"Secret in the text":       {"a strategic merge patch", "patch: 'kind: Secret'", true},
		"target":                   {"a JSON patch", "{target: {kind: Secret}, patch: hunter2}", true},
		"expression":               {"kinds are regular expressions", "{target: {kind: Config.*|Sec.*}, patch: hunter2}", true},
		"all kinds":                {"Secrets are among them", "{target: {labelSelector: a=b}, patch: hunter2}", true},
		"faulty expression":        {"it is not known", "{target: {kind: '('}, patch: hunter2}", true},
		"sensitive":                {"by its annotation", "patch: 'infrahub.operators.com/sensitive: true'", true},
		"another kind":             {"it has no Secret", "{target: {kind: Deployment}, patch: replicas}", false},
		"another kind by its text": {"it has no Secret", "patch: 'kind: Deployment'", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			patch := map[string]any{}
			require.NoError(t, yaml.Unmarshal([]byte(tt.patch), &patch))
			applied := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"kustomize": map[string]any{"patches": []any{patch}}}}}
			before := applied.DeepCopy()
			p := &Plan{VidraResource: applied}
			p.withhold()
			require.Equal(t, before, applied, tt.reason)
			text, err := p.Text()
			require.NoError(t, err)
			require.Equal(t, tt.withheld, len(p.Findings) == 1, tt.reason)
			if tt.withheld {
				require.NotContains(t, text, patch["patch"])
				require.Contains(t, text, "(withheld)")
			}
		})
	}
}
