package migrate

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// TestJudgeHelmRelease: a HelmRelease that may install the release again is in the way of a migration.
func TestJudgeHelmRelease(t *testing.T) {
	with := func(spec map[string]any, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		for _, c := range change {
			c(u)
		}
		return u
	}
	deleted := func(u *unstructured.Unstructured) {
		u.SetDeletionTimestamp(ptr.To(metav1.NewTime(time.Unix(1, 0))))
	}
	tests := map[string]struct {
		reason   string
		live     *unstructured.Unstructured
		err      error
		severity Severity
		text     string
	}{
		"absent":    {"It may be in the management cluster.", nil, nil, Acceptable, "does not exist here"},
		"unknown":   {"Its state is unknown.", nil, errors.New("forbidden"), Refused, "it is unknown whether it is suspended: forbidden"},
		"active":    {"It installs the release again.", with(map[string]any{}), nil, Refused, "suspend it first, with `flux -n shop suspend helmrelease web`"},
		"resumed":   {"The same.", with(map[string]any{"suspend": false}), nil, Refused, "suspend it first"},
		"deleted":   {"Its finalizer uninstalls the release.", with(map[string]any{"suspend": true}, deleted), nil, Refused, "is being deleted"},
		"suspended": {"It does nothing, until it is resumed.", with(map[string]any{"suspend": true}), nil, Note, "has to stay suspended"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			severity, text := helmRelease{"shop", "web"}.judge(tt.live, tt.err)
			require.Equal(t, tt.severity, severity, tt.reason)
			require.Contains(t, text, "HelmRelease shop/web of Flux")
			require.Contains(t, text, tt.text)
		})
	}
}
