package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDisabledEndpoints: a disabled endpoint needs neither a manager nor a certificate.
func TestDisabledEndpoints(t *testing.T) {
	o := options{metricsAddress: "0", metricsSecure: true}
	require.NoError(t, o.addMetrics(nil, nil))
}
