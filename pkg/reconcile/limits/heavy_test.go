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
	leave, ok := h.Enter("")
	require.True(t, ok)
	_, ok = h.Enter("")
	require.True(t, ok)
	_, ok = h.Enter("")
	require.False(t, ok, "six of eight workers are left to others")
	leave()
	_, ok = h.Enter("")
	require.True(t, ok)
	_, ok = NewHeavyShare(1).Enter("shop")
	require.True(t, ok, "the only worker does all")
}

// TestHeavyTenants shows that the artifacts of one namespace leave workers to the others.
func TestHeavyTenants(t *testing.T) {
	t.Parallel()
	h := NewHeavyShare(16)
	var leave []func()
	for range 2 {
		exit, ok := h.Enter("shop")
		require.True(t, ok)
		leave = append(leave, exit)
	}
	_, ok := h.Enter("shop")
	require.False(t, ok, "one tenant has two of four workers")
	for range 2 {
		exit, ok := h.Enter("bank")
		require.True(t, ok)
		leave = append(leave, exit)
	}
	_, ok = h.Enter("")
	require.False(t, ok, "all are taken")
	for _, exit := range leave {
		exit()
	}
	_, ok = h.Enter("shop")
	require.True(t, ok)
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
