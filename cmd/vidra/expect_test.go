package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEditInBackground: a process that the command left behind has its output, and is not waited for.
func TestEditInBackground(t *testing.T) {
	began := time.Now()
	var out bytes.Buffer
	require.NoError(t, runEdit(t.Context(), []string{"sh", "-c", "echo edited; sleep 20 &"}, &out))
	require.Equal(t, "edited\n", out.String())

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, runEdit(ctx, []string{"sh", "-c", "sleep 20 & wait"}, &out), "the time is over")
	require.Less(t, time.Since(began), 10*time.Second)
	require.ErrorContains(t, runEdit(t.Context(), []string{"sh", "-c", "exit 3"}, &out), "the command sh: exit status 3")
}
