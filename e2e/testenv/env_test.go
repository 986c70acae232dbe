package testenv

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	got, err := newDir(dir)
	require.NoError(t, err)
	require.Equal(t, dir, got)

	left := filepath.Join(dir, "audit.log")
	require.NoError(t, os.WriteFile(left, nil, 0o600))
	_, err = newDir(dir)
	require.NoError(t, err, "what an earlier run left is removed")
	require.NoFileExists(t, left)

	foreign := t.TempDir()
	precious := filepath.Join(foreign, "precious")
	require.NoError(t, os.WriteFile(precious, nil, 0o600))
	_, err = newDir(foreign)
	require.ErrorContains(t, err, "holds files that are not ours")
	require.FileExists(t, precious)

	temporary, err := newDir("")
	require.NoError(t, err)
	require.NoError(t, os.Remove(temporary), "it is empty")
}
