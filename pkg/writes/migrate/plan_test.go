package migrate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/insight"
)

// TestJudgeCreated: the finding about an object that is created has the reason, as the object may still exist.
func TestJudgeCreated(t *testing.T) {
	for why, want := range map[string]string{
		"": "ConfigMap shop/page does not exist, and Vidra creates it",
		"its deletion has begun: it is created again when it is gone": "ConfigMap shop/page: its deletion has begun: it is created again when it is gone",
	} {
		p := &Plan{}
		p.judge(&insight.ObjectDifference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page", Action: insight.ActionCreate, Why: why})
		require.Equal(t, []Finding{{Field: "missing", Severity: Acceptable, Text: want}}, p.Findings)
	}
}
