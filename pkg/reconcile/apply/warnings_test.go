package apply

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// handled gathers the warnings that it handles.
type handled struct{ texts []string }

func (h *handled) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	h.texts = append(h.texts, text)
}

// TestWarningsOfOtherRequests: the log has no text that may quote a value.
func TestWarningsOfOtherRequests(t *testing.T) {
	const withheld = "the API server warned of a request; the warning is withheld because it may quote a value"
	tests := map[string]struct{ reason, text, want string }{
		"Deprecated":  {"a version is no value", "policy/v1beta1 PodDisruptionBudget is deprecated in v1.21+, unavailable in v1.25+; use policy/v1 PodDisruptionBudget", ""},
		"Core":        {"also one of the core group", "v1 ComponentStatus is deprecated in v1.19+", ""},
		"Policy":      {"a policy may quote the object", "Validation failed for ValidatingAdmissionPolicy 'a': bad: hunter2", withheld},
		"LooksLikeIt": {"so may a text that only begins like that", "v1 Secret is deprecated in v1.19+: hunter2", withheld},
		"Value":       {"the API server itself quotes values", `spec.env[0].value: "hunter2" is deprecated`, withheld},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var log handled
			Warnings{Otherwise: &log}.HandleWarningHeaderWithContext(t.Context(), 299, "", tt.text)
			if tt.want == "" {
				tt.want = tt.text
			}
			require.Equal(t, []string{tt.want}, log.texts, tt.reason)
			gathering, gathered := withWarnings(t.Context())
			Warnings{Otherwise: &log}.HandleWarningHeaderWithContext(gathering, 299, "", tt.text)
			require.Equal(t, []string{tt.text}, gathered.all(), "the decision about the object is made later")
			require.Len(t, log.texts, 1)
		})
	}
}
