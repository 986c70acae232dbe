package main

import (
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vidra-operator/vidra/cmd/internal/version"
)

// register registers the metrics of the parts, and the metric of the build.
func register(with prometheus.Registerer, parts ...prometheus.Collector) error {
	for _, one := range append(parts, newBuildInfo()) {
		if err := with.Register(one); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// newBuildInfo returns the metric of the version that runs.
func newBuildInfo() prometheus.Collector {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "vidra_build_info",
		Help: "1, with the version of Vidra, the version of Go that built it, and the platform.",
	}, []string{"version", "goversion", "goos", "goarch"})
	info.WithLabelValues(version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH).Set(1)
	return info
}
