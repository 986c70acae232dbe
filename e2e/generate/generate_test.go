package generate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

func TestGeneratedFilesAreCommitted(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	// The variables of the Makefile that say where a generated file goes, and
	// where it is committed.
	files := map[string][]string{
		"CRD_DIR":      {"config/crd/bases/infrahub.operators.com_infrahubsyncs.yaml", "config/crd/bases/infrahub.operators.com_vidraresources.yaml"},
		"RBAC_DIR":     {"config/rbac/role.yaml"},
		"DEEPCOPY_DIR": {"pkg/api/v1alpha1/zz_generated.deepcopy.go"},
	}
	dirs, args := map[string]string{}, []string{"--no-print-directory", "generate"}
	for variable := range files {
		dirs[variable] = t.TempDir()
		args = append(args, variable+"="+dirs[variable])
	}
	cmd := exec.CommandContext(t.Context(), "make", args...)
	cmd.Dir, cmd.Env = root, withoutMake(os.Environ())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	for variable, committed := range files {
		t.Run(variable, func(t *testing.T) {
			made, err := os.ReadDir(dirs[variable])
			require.NoError(t, err)
			require.Len(t, made, len(committed), "a new file belongs in this test")
			for i, file := range committed {
				require.Equal(t, filepath.Base(file), made[i].Name())
				want, err := os.ReadFile(filepath.Join(dirs[variable], made[i].Name()))
				require.NoError(t, err)
				got, err := os.ReadFile(filepath.Join(root, file)) //nolint:gosec // a file of this repository
				require.NoError(t, err)
				require.Equal(t, string(want), string(got), "%s is out of date: run `make generate` and commit the result", file)
			}
		})
	}
}

// withoutMake drops what an outer make passes to inner ones, such as variables of
// its command line.
func withoutMake(env []string) []string {
	var kept []string
	for _, e := range env {
		if !strings.HasPrefix(e, "MAKE") && !strings.HasPrefix(e, "MFLAGS=") {
			kept = append(kept, e)
		}
	}
	return kept
}
