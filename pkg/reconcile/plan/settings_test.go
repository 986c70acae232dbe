package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// TestAdditionsOf is the policy for additions with each value of a spec: one of another version keeps them, as after a rollback of the operator.
func TestAdditionsOf(t *testing.T) {
	t.Parallel()
	tools := ownership.Tools{"kubectl*"}
	for policy, want := range map[v1alpha1.AdditionsPolicy]Additions{
		"":                       {Policy: v1alpha1.AdditionsWarn, Tools: tools},
		v1alpha1.AdditionsKeep:   {Policy: v1alpha1.AdditionsKeep},
		v1alpha1.AdditionsWarn:   {Policy: v1alpha1.AdditionsWarn, Tools: tools},
		v1alpha1.AdditionsRevert: {Policy: v1alpha1.AdditionsRevert, Tools: tools},
		"Quarantine":             {Policy: v1alpha1.AdditionsKeep},
	} {
		vr := &v1alpha1.VidraResource{}
		vr.Spec.Drift = &v1alpha1.DriftPolicy{Additions: policy}
		require.Equal(t, want, AdditionsOf(vr, v1alpha1.AdditionsWarn, tools), policy)
		vr.Spec.Drift.Mode = v1alpha1.DriftIgnore
		require.Equal(t, Additions{Policy: v1alpha1.AdditionsKeep}, AdditionsOf(vr, v1alpha1.AdditionsWarn, tools), policy)
	}
}
