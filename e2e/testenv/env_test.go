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

// TestFreePort: a port stays free for its operator while connections, and listeners that name no port, take theirs. Each is given once.
func TestFreePort(t *testing.T) {
	seen := map[int]bool{}
	for range 200 {
		port, err := FreePort()
		require.NoError(t, err)
		require.False(t, seen[port])
		seen[port] = true
		require.Less(t, port, 32768, "the first port of connections on Linux")
		require.GreaterOrEqual(t, port, 1024, "the first port of all users")
	}
}
