package main

import (
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vidra-operator/vidra/cmd/internal/version"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
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

// newWatched returns the metric of the WATCH of the VidraResources that the operator reconciles.
func newWatched(relister *cluster.Relister, shard v1alpha1.Shard) prometheus.Collector {
	path, selector := "/apis/"+v1alpha1.GroupVersion.String()+"/"+v1alpha1.Resource.Resource, ""
	if shard != "" {
		selector = shard.Selector().String()
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "vidra_resources_watched",
		Help: "1 while a WATCH of the VidraResources is open; 0 while the API server refuses it or does not answer, so that their changes are not noticed.",
	}, func() float64 {
		if relister.Watches(path, selector) {
			return 1
		}
		return 0
	})
}
