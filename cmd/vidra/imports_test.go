package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoTestCodeIsShipped requires that what users install is built without the code of
// tests and releases: of this repository and of the libraries.
func TestNoTestCodeIsShipped(t *testing.T) {
	const module = "github.com/vidra-operator/vidra"
	for _, command := range []string{"vidra", "operator"} {
		t.Run(command, func(t *testing.T) {
			pkg := module + "/cmd/" + command
			out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
			require.NoError(t, err)
			imports := strings.Fields(string(out))
			require.Contains(t, imports, pkg)
			require.Contains(t, imports, "k8s.io/client-go/rest", "the list has what is imported indirectly")
			testCode := slices.DeleteFunc(imports, func(path string) bool {
				return path != "testing" && !strings.HasPrefix(path, module+"/e2e") &&
					!strings.Contains(path, "envtest") && !strings.Contains(path, "testify") &&
					!strings.Contains(path, "containerregistry") && !strings.Contains(path, "cyclonedx")
			})
			require.Empty(t, testCode)
		})
	}
}
