package cloudevents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadHeaders(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, text string
		want         map[string][]string
		err          string
	}{
		"One":      {reason: "As a Secret has it.", text: "Authorization: Bearer a b", want: map[string][]string{"Authorization": {"Bearer a b"}}},
		"Several":  {reason: "Some brokers need two.", text: "x-api-key: k\r\nX-Tenant: shop\n\n", want: map[string][]string{"X-Api-Key": {"k"}, "X-Tenant": {"shop"}}},
		"Empty":    {reason: "It is to have some.", text: "\n", err: "a line that is no header"},
		"NoHeader": {reason: "A token alone is none.", text: "letmein", err: "a line that is no header"},
		"Reserved": {reason: "It is the CloudEvent's.", text: "ce-id: letmein", err: "has Ce-Id"},
		"Host":     {reason: "It is the URL's.", text: "host: letmein", err: "has Host"},
		"Large":    {reason: "It is read for each request.", text: "A: " + strings.Repeat("letmein", maxHeaders), err: "more than 16384 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "headers")
			require.NoError(t, os.WriteFile(path, []byte(tc.text), 0o600))
			got, err := readHeaders(path)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err, tc.reason)
				require.NotContains(t, err.Error(), "letmein")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, map[string][]string(got), tc.reason)
		})
	}
	_, err := readHeaders(filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	none, err := readHeaders("")
	require.NoError(t, err)
	require.Empty(t, none)
}
