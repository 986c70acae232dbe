package object

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestMessagesAreALine: a controller or another cluster cannot forge lines of kubectl describe, or move the cursor, with its message.
func TestMessagesAreALine(t *testing.T) {
	tests := map[string]struct{ reason, text, want string }{
		"plain":    {"an ordinary text is unchanged", `ConfigMap shop/a: data.größe is "1"`, `ConfigMap shop/a: data.größe is "1"`},
		"lines":    {"lines become one", "no disk\n  Ready:\u2028True\r\n", "no disk Ready: True"},
		"escapes":  {"an escape of a terminal is shown", "\x1b]52;c;x\x07 \u009b2K", `\x1b]52;c;x\a \u009b2K`},
		"bidi":     {"a change of the direction is shown", "safe \u202edab", `safe \u202edab`},
		"no UTF-8": {"an invalid byte is replaced", "a\xffb", "a\uFFFDb"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, ProblemOf(nil, "Failed", tt.text, v1alpha1.ConditionReady).Message, tt.reason)
			require.Equal(t, tt.want, ProblemOf(nil, "Failed", tt.want, v1alpha1.ConditionReady).Message, "the message is kept as it is")
		})
	}
	require.Len(t, ProblemMessage(strings.Repeat("\u202e", v1alpha1.MaxProblemMessage)), v1alpha1.MaxProblemMessage)
}
