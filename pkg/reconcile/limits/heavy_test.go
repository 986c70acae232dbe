package limits

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestHeavyShare shows what heavy reconciles leave to the others.
func TestHeavyShare(t *testing.T) {
	t.Parallel()
	h := NewHeavyShare(8)
	leave, ok := h.Enter()
	require.True(t, ok)
	_, ok = h.Enter()
	require.True(t, ok)
	_, ok = h.Enter()
	require.False(t, ok, "six of eight workers are left to others")
	leave()
	_, ok = h.Enter()
	require.True(t, ok)
	_, ok = NewHeavyShare(1).Enter()
	require.True(t, ok, "the only worker does all")
}

// TestHeavyMemory shows that the heaviest manifest is alone, and that light work does not
// wait for it.
func TestHeavyMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewHeavyShare(8)
		free, err := h.Take(t.Context(), 10*heavyMemory)
		require.NoError(t, err)
		light, err := h.Take(t.Context(), LightWeight)
		require.NoError(t, err)
		light()

		taken := false
		go func() {
			next, err := h.Take(t.Context(), LightWeight+1)
			taken = err == nil
			next()
		}()
		synctest.Wait()
		require.False(t, taken)
		free()
		synctest.Wait()
		require.True(t, taken)
	})
}
