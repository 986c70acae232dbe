package main

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/events"
)

// TestTimeToEnd: whatever takes as long as it may when the operator ends, it has ended
// well before the kubelet kills it.
func TestTimeToEnd(t *testing.T) {
	t.Parallel()
	const margin = 5 * time.Second
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "manager", "deployment.yaml"))
	require.NoError(t, err)
	deployment := &appsv1.Deployment{}
	require.NoError(t, yaml.UnmarshalStrict(text, deployment))
	grace := time.Duration(*deployment.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	require.LessOrEqual(t, shutdownTimeout+renewDeadline+interruptedTimeout+events.FlushTimeout, grace-margin)
	require.Less(t, flushTimeout, shutdownTimeout, "statuses are written while the Lease is held")
}

// TestFlagsThatAreRefused: the operator does not start with a flag that it cannot honor. Each flag with a value has a row, or takes any text.
func TestFlagsThatAreRefused(t *testing.T) {
	t.Parallel()
	const noNamespace = "it must be the name of a namespace"
	tests := map[string]struct{ flag, want string }{
		"no worker":              {"--workers=0", "--workers is 0: at least one is needed"},
		"many workers":           {"--workers=100000", "--workers is 100000: at most 256 are allowed"},
		"unknown event values":   {"--event-values=some", `--event-values is "some": it must be all or none`},
		"negative break-glass":   {"--max-break-glass=-1s", "--max-break-glass is -1s: give 0 to accept no break-glass"},
		"unknown additions":      {"--drift-additions=Delete", `--drift-additions is "Delete": it must be Keep, Warn or Revert`},
		"tools in a pattern":     {"--people-tools=[", "--people-tools: "},
		"short interval":         {"--default-interval=1s", "--default-interval is 1s: it must be at least 10s"},
		"short backstop":         {"--backstop-interval=1ms", "--backstop-interval is 1ms: it must be at least 1s, or 0 for no backstop"},
		"negative backstop":      {"--backstop-interval=-1h", "--backstop-interval is -1h0m0s: it must be at least 1s"},
		"pprof without port":     {"--pprof-bind-address=localhost", `--pprof-bind-address is "localhost": it must be HOST:PORT, or :PORT for 127.0.0.1`},
		"pprof at no port":       {"--pprof-bind-address=:99999", `--pprof-bind-address is ":99999": it must be HOST:PORT, or :PORT for 127.0.0.1`},
		"metrics without port":   {"--metrics-bind-address=8443", `--metrics-bind-address is "8443": it must be HOST:PORT or :PORT`},
		"metrics at no port":     {"--metrics-bind-address=:https", `"https" is no port`},
		"probes without port":    {"--health-probe-bind-address=localhost", `--health-probe-bind-address is "localhost": it must be HOST:PORT or :PORT`},
		"webhooks without port":  {"--infrahub-webhook-bind-address=hooks", `--infrahub-webhook-bind-address is "hooks": it must be HOST:PORT or :PORT`},
		"webhooks without keys":  {"--infrahub-webhook-bind-address=:8082", "it needs --infrahub-webhook-key-file"},
		"artifacts without URL":  {"--infrahub-publish-bind-address=:8083", "it needs --infrahub-publish-url"},
		"artifacts by FTP":       {"--infrahub-publish-url=ftp://vidra", "it must be an http or https URL without a query"},
		"keys without webhooks":  {"--infrahub-webhook-key-file=/keys", "it needs --infrahub-webhook-key-file, and that flag needs it"},
		"headers, no sink":       {"--cloudevents-headers-file=/headers", "--cloudevents-headers-file: it has no effect without --cloudevents-sink"},
		"sink without scheme":    {"--cloudevents-sink=sink.example.com", "--cloudevents-sink: "},
		"Lease in no namespace":  {"--leader-election-namespace=Vidra System", `--leader-election-namespace is "Vidra System": ` + noNamespace},
		"Lease everywhere":       {"--leader-election-namespace=*", noNamespace},
		"kubeconfigs, two":       {"--kubeconfig-namespace=a,b", `--kubeconfig-namespace is "a,b": ` + noNamespace},
		"credentials, two":       {"--infrahub-credentials-namespace=a,b", `--infrahub-credentials-namespace is "a,b": ` + noNamespace},
		"ConfigMap, no name":     {"--first-operator-config=vidra-config", `--first-operator-config is "vidra-config": it must be NAMESPACE/NAME`},
		"ConfigMap, three names": {"--first-operator-config=a/b/c", "it must be NAMESPACE/NAME"},
		"no installation":        {"--installation=East", "East"},
		"no selector":            {"--watch-label-selector=team in", "team in"},
		"no namespace":           {"--namespaces=team_a", "team_a"},
		"no labels":              {"--impersonation-namespaces=a=b=c", "a=b=c"},
		"hosts with a path":      {"--artifact-hosts=a.example.com/x", `--artifact-hosts is "a.example.com/x": "a.example.com/x" is no host`},
		"no file":                {"--config=/missing/config.yaml", "/missing/config.yaml"},
	}
	refused := map[string]bool{}
	for name, tt := range tests {
		refused[strings.TrimPrefix(strings.SplitN(tt.flag, "=", 2)[0], "--")] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, fs := options{}, flag.NewFlagSet("", flag.ContinueOnError)
			opts.bind(fs)
			err := parse(fs, []string{tt.flag})
			if err == nil {
				err = opts.complete(fs)
			}
			if err == nil {
				err = run(t.Context(), opts, newLogger(zap.Options{}, io.Discard))
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
	opts, fs := options{}, flag.NewFlagSet("", flag.ContinueOnError)
	opts.bind(fs)
	fs.VisitAll(func(f *flag.Flag) {
		if isBool, is := f.Value.(interface{ IsBoolFlag() bool }); !is || !isBool.IsBoolFlag() {
			require.True(t, refused[f.Name], "no value of --%s is refused", f.Name)
		}
	})
}

// TestUsageHidesNoError: the error about a flag is all that the log has.
func TestUsageHidesNoError(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"--namespaces=team_a": "team_a", "--worker=3": "worker", "--workers=many": "many", "--help": flag.ErrHelp.Error()} {
		var log bytes.Buffer
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		fs.SetOutput(&log)
		(&options{}).bind(fs)
		require.ErrorContains(t, parse(fs, []string{args}), want)
		require.Empty(t, log.String())
		require.Same(t, &log, fs.Output(), "--help prints the usage")
	}
}

// TestNotReadyBeforeTheCaches: /readyz fails until the caches are synced.
func TestNotReadyBeforeTheCaches(t *testing.T) {
	t.Parallel()
	check := &syncedCheck{}
	require.ErrorContains(t, check.check(nil), "not synced")
	answer := httptest.NewRecorder()
	probe("", check.check).ServeHTTP(answer, nil)
	require.Equal(t, http.StatusInternalServerError, answer.Code)
	require.Contains(t, answer.Body.String(), "the caches are not synced yet", "the kubelet shows the answer")
	check.synced.Store(true)
	require.NoError(t, check.check(nil))
}
