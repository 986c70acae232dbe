package seal

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// keyOfBytes is a key for tests.
func keyOfBytes(b byte) []byte { return bytes.Repeat([]byte{b}, digestKeyBytes) }

// TestSeal shows who can open what, and what can be read from a sealed text.
func TestSeal(t *testing.T) {
	t.Parallel()
	const text = "1:0123456789abcdefghijkl"
	one, two := Keys{keyOfBytes(1)}, Keys{keyOfBytes(2)}
	rotated := Keys{keyOfBytes(2), keyOfBytes(1)}
	sealed := one.Seal("a", text)
	require.NotContains(t, sealed, text[2:])
	require.Equal(t, sealed, one.Seal("a", text), "a status does not change without need")
	require.NotEqual(t, sealed, one.Seal("b", text), "equal values at two places do not look equal")
	require.NotEqual(t, sealed, two.Seal("a", text))
	require.Equal(t, rotated.Seal("a", text), two.Seal("a", text), "the current key seals")

	cases := map[string]struct {
		reason string
		keys   Keys
		place  string
		sealed string
		want   string
	}{
		"Same":        {"A restart opens what was sealed before.", one, "a", sealed, text},
		"Rotated":     {"The previous key opens.", rotated, "a", sealed, text},
		"Current":     {"So does the current one.", rotated, "a", two.Seal("a", text), text},
		"Lost":        {"Without the key nothing is opened.", two, "a", sealed, ""},
		"Moved":       {"What was sealed for one object says nothing of another one.", one, "b", sealed, ""},
		"Empty":       {"Nothing was sealed.", one, "a", "", ""},
		"NotSealed":   {"It was not sealed.", one, "a", text, ""},
		"Short":       {"Somebody cut it.", one, "a", sealed[:20], ""},
		"Long":        {"Somebody lengthened it.", one, "a", sealed + strings.Repeat("A", 40), ""},
		"NoText":      {"Somebody wrote what is no base64.", one, "a", Prefix + "%", ""},
		"Manipulated": {"Somebody changed it.", one, "a", sealed[:len(sealed)-2] + "AA", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := tc.keys.Open(tc.place, tc.sealed)
			require.Equal(t, tc.want, got, tc.reason)
			require.Equal(t, tc.want != "", ok, tc.reason)
		})
	}
}

// TestKeysIn reads the Secret that holds the keys.
func TestKeysIn(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		data   map[string][]byte
		want   [][]byte
	}{
		"Current":  {"One key is enough.", map[string][]byte{"current": keyOfBytes(1)}, [][]byte{keyOfBytes(1)}},
		"Previous": {"The current one comes first, whatever the others are called.", map[string][]byte{"before": keyOfBytes(2), "current": keyOfBytes(1), "previous": keyOfBytes(3)}, [][]byte{keyOfBytes(1), keyOfBytes(2), keyOfBytes(3)}},
		"None":     {"There must be a current key.", map[string][]byte{"previous": keyOfBytes(1)}, nil},
		"Short":    {"A short key can be guessed.", map[string][]byte{"current": []byte("password")}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, why := keysIn(&corev1.Secret{Data: tc.data})
			if tc.want == nil {
				require.Contains(t, why, "correct it, and restart the operator", tc.reason)
				return
			}
			require.Empty(t, why, tc.reason)
			require.Equal(t, tc.want, [][]byte(keys), tc.reason)
		})
	}
}

// TestSealLongTexts: a text that is longer than a block of the mask is sealed whole.
func TestSealLongTexts(t *testing.T) {
	t.Parallel()
	keys := Keys{NewKey()}
	text := strings.Repeat("a", MaxText)
	sealed := keys.Seal("place", text)
	opened, ok := keys.Open("place", sealed)
	require.True(t, ok)
	require.Equal(t, text, opened)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(sealed, Prefix))
	require.NoError(t, err)
	masked := raw[sealedID+sealedTag:]
	require.NotEqual(t, masked[:32], masked[32:64], "no block of the mask is used twice")
	_, ok = keys.Open("elsewhere", sealed)
	require.False(t, ok)
}
