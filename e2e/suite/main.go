package suite

import (
	"context"
	"os"
	"runtime/debug"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// Main is the TestMain of a package: it starts with setUp what the tests share, runs them, and ends it
// with stop, also if it was started in part. The libraries of Kubernetes log nothing, and garbage is collected
// as rarely as in the control plane. It does not return.
func Main(m *testing.M, setUp func(context.Context) error, stop func() error) {
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // a forwarded port that is not open yet, for example
	testenv.ParseFlags()
	debug.SetGCPercent(testenv.GCPercent)
	os.Exit(RunTests(m, setUp, stop))
}
