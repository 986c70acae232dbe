package main

import (
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/vidra-operator/vidra/cmd/internal/configfile"
	"github.com/vidra-operator/vidra/e2e/generate"
	"github.com/vidra-operator/vidra/pkg/events/cloudevents"
	"github.com/vidra-operator/vidra/pkg/events/recorder"
	reconcilemetrics "github.com/vidra-operator/vidra/pkg/reconcile/metrics"
	"github.com/vidra-operator/vidra/pkg/sync"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// reference is the file that the tests below generate parts of.
const reference = "docs/reference.md"

// everyFlag returns all flags of the operator, with the values of the options.
func everyFlag(o *options) *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	o.bind(fs)
	(&zap.Options{}).BindFlags(fs)
	kubeconfig := flag.CommandLine.Lookup("kubeconfig") // of controller-runtime
	fs.Var(kubeconfig.Value, kubeconfig.Name, kubeconfig.Usage)
	return fs
}

// TestFlagsAreDocumented keeps the flags of the operator, and the fields of its configuration file,
// in docs/reference.md.
func TestFlagsAreDocumented(t *testing.T) {
	fields := map[string]configfile.Field{}
	for _, field := range configfile.Fields() {
		fields[field.Flag] = field
	}
	var b strings.Builder
	b.WriteString("| Flag | Field | Type | Default | |\n|---|---|---|---|---|\n")
	everyFlag(&options{}).VisitAll(func(f *flag.Flag) {
		value, field := "", ""
		if f.DefValue != "" {
			value = "`" + strings.ReplaceAll(f.DefValue, ",", ", ") + "`"
		}
		if of, found := fields[f.Name]; found {
			field = "`" + of.Name + "`"
		}
		_, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(&b, "| `--%s` | %s | %s | %s | %s |\n", f.Name, field, fields[f.Name].Type, value, generate.Cell(usage))
	})
	generate.Section(t, reference, "cmd/operator", b.String())
}

// collectors is a registerer that only remembers.
type collectors struct{ all []prometheus.Collector }

func (c *collectors) Register(one prometheus.Collector) error {
	c.all = append(c.all, one)
	return nil
}
func (c *collectors) MustRegister(all ...prometheus.Collector) { c.all = append(c.all, all...) }
func (c *collectors) Unregister(prometheus.Collector) bool     { return false }

// TestMetricsAreDocumented keeps the metrics in docs/reference.md.
func TestMetricsAreDocumented(t *testing.T) {
	found := &collectors{}
	_, err := recorder.New(nil, found, recorder.Options{})
	require.NoError(t, err)
	_, err = cloudevents.New(cloudevents.Options{URL: "http://sink.example.com", Registerer: found})
	require.NoError(t, err)
	registry := watchregistry.New(watchregistry.Options{})
	defer registry.Stop()
	require.NoError(t, found.Register(sync.NewMetrics()))
	require.NoError(t, register(found, registry.Collector("vidra"), trigger.NewFactory(trigger.NewIndex()), reconcilemetrics.New(),
		reconcilemetrics.NewConditions(nil, ""), newLogger(zap.Options{}, io.Discard).suppressed))
	shard, err := newUnselected(options{}, nil, nil, logr.Discard())
	require.NoError(t, err)
	require.NoError(t, found.Register(shard))
	require.NoError(t, found.Register(newWatched(nil, "")))

	parts := regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*)", unit: "", constLabels: \{\}, variableLabels: \{(.*)\}\}$`)
	var rows []string
	for _, one := range found.all {
		descs := make(chan *prometheus.Desc)
		go func() {
			defer close(descs)
			one.Describe(descs)
		}()
		for desc := range descs {
			part := parts.FindStringSubmatch(desc.String())
			require.NotNil(t, part, desc.String())
			labels := ""
			if part[3] != "" {
				labels = "`" + strings.ReplaceAll(part[3], ",", "`, `") + "`"
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", part[1], labels, generate.Cell(part[2])))
		}
	}
	slices.Sort(rows)
	generate.Section(t, reference, "the collectors that cmd/operator registers", "| Metric | Labels | |\n|---|---|---|\n"+strings.Join(rows, ""))
}
