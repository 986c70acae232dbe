package ownership

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestUserOf shows the name of a user so that it cannot be mistaken for the text around it.
func TestUserOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reason, annotation, want string }{
		"none":          {"no user is known", "", ""},
		"mail":          {"a name as of OIDC", "alice@example.com", "alice@example.com"},
		"account":       {"a ServiceAccount", "system:serviceaccount:shop:deployer", "system:serviceaccount:shop:deployer"},
		"edges":         {"each letter and digit is usual", "azAZ09", "azAZ09"},
		"several":       {"the policy writes it where others edited the object, too", "alice@example.com and others", "alice@example.com and others"},
		"blanks":        {"it could be a sentence", `x had done nothing; "bob`, `"x had done nothing; \"bob"`},
		"controls":      {"a note has one line", "a\nb\x1b[31m", `"a\nb\x1b[31m"`},
		"long":          {"a note is bounded", strings.Repeat("ä", 500), `"` + strings.Repeat("ä", 127) + `…"`},
		"long, several": {"the others are not cut", strings.Repeat("a", 500) + " and others", strings.Repeat("a", 127) + "… and others"},
		"no UTF-8":      {"an annotation always is", "a\xff", `"a?"`},
		"others alone":  {"it names no user", " and others", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetAnnotations(map[string]string{EditedByAnnotation: tc.annotation})
			require.Equal(t, tc.want, UserOf(u), tc.reason)
		})
	}
	require.Empty(t, UserOf(nil))
	require.Empty(t, UserOf(&unstructured.Unstructured{Object: map[string]any{}}))
}

// TestBy names the user and the field manager, as far as they are known.
func TestBy(t *testing.T) {
	t.Parallel()
	changes := []Change{{Manager: "kubectl-edit"}, {}, {Manager: "kubectl", Subresource: "scale"}, {Manager: "my tool"}}
	SetUser("alice@example.com", changes[:2], changes[2:])
	require.Equal(t, "alice@example.com (kubectl-edit)", changes[0].By())
	require.Equal(t, "alice@example.com", changes[1].By(), "the API server does not record who removes a field")
	require.Equal(t, `"kubectl"`, changes[2].By(), "the annotation names no user of a subresource")
	require.Equal(t, `alice@example.com ("my tool")`, changes[3].By())
	require.Equal(t, `"kubectl-edit"`, Change{Manager: "kubectl-edit"}.By())
	require.Empty(t, Change{}.By())
}
