package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// TestBoundedLevel: at no level of the flag are the bodies of requests logged, which client-go logs at 8.
func TestBoundedLevel(t *testing.T) {
	var log bytes.Buffer
	logger := zap.New(zap.UseFlagOptions(&zap.Options{Level: boundedLevel{zapcore.Level(-100)}, DestWriter: &log}))
	logger.V(7).Info("seven")
	logger.V(8).Info("eight")
	logger.V(8).WithName("request").V(1).Info("nine")
	require.Contains(t, log.String(), "seven")
	require.NotContains(t, log.String(), "eight")
	require.NotContains(t, log.String(), "nine")
}
