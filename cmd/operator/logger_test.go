package main

import (
	"bytes"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// TestBoundedLevel: at no level of the flag are the bodies of requests logged, which client-go logs at 8.
func TestBoundedLevel(t *testing.T) {
	var log bytes.Buffer
	logger := newLogger(zap.Options{Level: zapcore.Level(-100)}, &log)
	logger.V(7).Info("seven")
	logger.V(8).Info("eight")
	logger.V(8).WithName("request").V(1).Info("nine")
	require.Contains(t, log.String(), "seven")
	require.NotContains(t, log.String(), "eight")
	require.NotContains(t, log.String(), "nine")
}

// TestLogIsGraphic: the log has no control character of a name or a message, in any encoding.
func TestLogIsGraphic(t *testing.T) {
	const hostile = "evil\x1b]0;title\a\u009b31m\u202e\r\x7f"
	for _, development := range []bool{false, true} { // JSON, and text for users
		var log bytes.Buffer
		newLogger(zap.Options{Development: development}, &log).Info("reconciled "+hostile, "name", hostile)
		require.Contains(t, log.String(), "evil")
		for _, r := range log.String() {
			require.True(t, unicode.IsPrint(r) || r == '\n' || r == '\t', "%q in %q", r, log.String())
		}
	}
}
