package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestQuotesNothing: only messages that the API server makes itself, or a policy of Vidra, are known to have no value.
func TestQuotesNothing(t *testing.T) {
	t.Parallel()
	secrets := schema.GroupResource{Resource: "secrets"}
	denied := func(code int, text string, causes ...string) error {
		status := metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReasonForbidden, Message: text, Details: &metav1.StatusDetails{}} //nolint:gosec // a code of HTTP
		for _, cause := range causes {
			status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Message: cause})
		}
		return &apierrors.StatusError{ErrStatus: status}
	}
	const right = `secrets "login" is forbidden: User "mary" cannot patch resource "secrets" in API group "" in the namespace "shop"`
	for name, tt := range map[string]struct {
		reason              string
		err                 error
		lacksRight, nothing bool
	}{
		"right":        {reason: "a missing right", err: denied(403, right), lacksRight: true, nothing: true},
		"rightToList":  {reason: "a missing right about no object", err: denied(403, `secrets is forbidden: User "mary" cannot list resource "secrets"`), lacksRight: true, nothing: true},
		"wrapped":      {reason: "what was done is added", err: fmt.Errorf("claim the object: %w", denied(403, right)), lacksRight: true, nothing: true},
		"policy":       {reason: "a policy writes what it likes", err: denied(403, `secrets "login" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: hunter2 is forbidden: User "mary" cannot`)},
		"webhook":      {reason: "so does a webhook", err: denied(403, `admission webhook "w.example.com" denied the request: secrets "login" is forbidden: User "mary" may not use hunter2`)},
		"ownPolicy":    {reason: "policies of Vidra quote nothing", err: denied(422, `vidraresources.infrahub.operators.com "a" is forbidden: ValidatingAdmissionPolicy 'vidra-authors' with binding 'vidra-authors' denied request: impersonate`, "impersonate"), nothing: true},
		"namedAlike":   {reason: "a policy of others may have such a name", err: denied(422, `secrets "a" is forbidden: ValidatingAdmissionPolicy 'vidra-mine' with binding 'b' denied request: hunter2`, "hunter2")},
		"ownAndOther":  {reason: "the other policy may quote", err: denied(422, `secrets "a" is forbidden: ValidatingAdmissionPolicy 'vidra-deny' with binding 'vidra-deny' denied request: no`, "no", "hunter2")},
		"otherReason":  {reason: "only a missing right has the text", err: &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: right}}},
		"conflict":     {reason: "a conflict of field managers names keys of lists", err: apierrors.NewConflict(secrets, "login", errors.New("changed"))},
		"notByTheAPIs": {reason: "another error", err: errors.New(right)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.lacksRight, LacksRight(tt.err), tt.reason)
			require.Equal(t, tt.nothing, QuotesNothing(tt.err), tt.reason)
			require.NotContains(t, WithoutMessage(tt.err, []string{"data.password"}), "hunter2")
		})
	}
}

// TestOwnPolicies: the policies in config are known.
func TestOwnPolicies(t *testing.T) {
	t.Parallel()
	policy := regexp.MustCompile(`(?m)^kind: ValidatingAdmissionPolicy\nmetadata:\n  name: (\S+)$`)
	var found []string
	require.NoError(t, filepath.WalkDir("../../config", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" || strings.Contains(filepath.ToSlash(path), "/chart/") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, named := range policy.FindAllStringSubmatch(string(text), -1) {
			found = append(found, named[1])
		}
		return err
	}))
	require.ElementsMatch(t, found, ownPolicies)
}

// TestWithoutMessage: the fields, and the reasons that quote no values, stay of a message.
func TestWithoutMessage(t *testing.T) {
	t.Parallel()
	const rest = "; its message is withheld because it may quote a sensitive value"
	invalid := func(text string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Message: text}}
	}
	for name, tt := range map[string]struct {
		reason string
		err    error
		fields []string
		want   string
	}{
		"Reason":    {"The reason of the API server.", invalid("hunter2 is wrong"), nil, "the API server answered Invalid" + rest},
		"Unknown":   {"An error without a reason.", errors.New("hunter2"), nil, "the API server answered an error" + rest},
		"Fields":    {"The names of fields.", invalid("hunter2"), []string{"data.a", "data.b"}, "the API server answered Invalid for the fields [data.a, data.b]" + rest},
		"Valueless": {"Each known reason once.", invalid("a: hunter2: field is immutable, b: may not change once set, c: field is immutable"), nil, "the API server answered Invalid (field is immutable, may not change once set)" + rest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, WithoutMessage(tt.err, tt.fields), tt.reason)
		})
	}
}
