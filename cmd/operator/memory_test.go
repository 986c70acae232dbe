package main

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

func TestLimitMemory(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	cases := map[string]struct {
		reason             string
		variable, goMemory string
		want               int64
		wantErr            string
	}{
		"Unset":      {"outside of a container there is no limit", "", "", math.MaxInt64, ""},
		"Container":  {"a tenth is left to what the runtime does not count", "536870900", "", 483183810, ""},
		"GOMEMLIMIT": {"the runtime has read it already", "536870900", "400MiB", math.MaxInt64, ""},
		"Unreadable": {"a quantity is no number of bytes", "512Mi", "", math.MaxInt64, `MEMORY_LIMIT is "512Mi": set it to a number of bytes`},
		"Negative":   {"a limit is positive", "-1", "", math.MaxInt64, `MEMORY_LIMIT is "-1"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			t.Setenv(memoryLimitVariable, tc.variable)
			t.Setenv("GOMEMLIMIT", tc.goMemory)
			err := limitMemory()
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr, tc.reason)
			} else {
				require.NoError(t, err, tc.reason)
			}
			require.Equal(t, tc.want, debug.SetMemoryLimit(-1), tc.reason)
		})
	}
}

// TestDeploymentSetsTheMemoryLimit: the container has a limit, and the operator knows it.
func TestDeploymentSetsTheMemoryLimit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "manager", "deployment.yaml"))
	require.NoError(t, err)
	deployment := &appsv1.Deployment{}
	require.NoError(t, yaml.UnmarshalStrict(text, deployment))
	container := deployment.Spec.Template.Spec.Containers[0]
	require.EqualValues(t, 512<<20, container.Resources.Limits.Memory().Value(), "docs/security.md names it")
	for _, variable := range container.Env {
		if variable.Name == memoryLimitVariable {
			require.Equal(t, "limits.memory", variable.ValueFrom.ResourceFieldRef.Resource)
			return
		}
	}
	require.Fail(t, "the container has no "+memoryLimitVariable)
}
