package testenv

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelmVersionAgreesWithModule(t *testing.T) {
	root, err := Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "e2e", "helm", "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(text), "\nrequire helm.sh/helm/v4 "+HelmVersion+"\n")
}

func TestSourceControllerVersionAgreesWithModule(t *testing.T) {
	root, err := Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "e2e", "sources", "controller", "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(text), "\nrequire "+sourceControllerModule+" "+SourceControllerVersion+"\n")
}
