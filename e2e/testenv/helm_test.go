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

func TestFluxVersionsAgreeWithModules(t *testing.T) {
	root, err := Root()
	require.NoError(t, err)
	for _, f := range fluxControllers {
		text, err := os.ReadFile(filepath.Join(root, "e2e", f.folder, "go.mod"))
		require.NoError(t, err)
		require.Contains(t, string(text), "\nrequire "+f.module()+" "+f.Version+"\n")
	}
}
