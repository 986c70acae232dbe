package suite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// Kill ends an operator, which must run, as a crash does.
func Kill(t *testing.T, operator *testenv.Operator) {
	t.Helper()
	require.NoError(t, operator.Err(), "the operator runs")
	require.NoError(t, operator.Kill())
	// A killed process has no exit code that could show it.
	require.NotContains(t, LogOf(t, operator), "DATA RACE")
}

// LogOf is what an operator has printed.
func LogOf(t *testing.T, operator *testenv.Operator) string {
	t.Helper()
	printed, err := os.ReadFile(operator.Log)
	require.NoError(t, err)
	return string(printed)
}

// Metrics are the metrics of an operator: the value of each series by its name and labels.
func Metrics(t require.TestingT, operator *testenv.Operator) map[string]float64 {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, operator.MetricsURL, http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // it was only read
	found := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		end := strings.LastIndex(lines.Text(), " ") // the value of a label may have blanks
		require.Positive(t, end)
		found[lines.Text()[:end]], err = strconv.ParseFloat(lines.Text()[end+1:], 64)
		require.NoError(t, err)
	}
	require.NoError(t, lines.Err())
	return found
}

// Metric is the sum of the series of an operator that begin with a text.
func Metric(t require.TestingT, operator *testenv.Operator, series string) int {
	total := 0
	for name, value := range Metrics(t, operator) {
		if strings.HasPrefix(name, series) {
			total += int(value)
		}
	}
	return total
}

// elsewhere are the flags that name what only a Pod has: its addresses, and its Lease.
var elsewhere = []string{"--metrics-bind-address", "--health-probe-bind-address", "--leader-elect"}

// FlagsOf are the flags of the Deployment of the operator.
func FlagsOf(objs []*unstructured.Unstructured) ([]string, error) {
	for _, o := range objs {
		if o.GetKind() != "Deployment" {
			continue
		}
		d := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
			return nil, fmt.Errorf("read the Deployment of the operator: %w", err)
		}
		var flags []string
		for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
			if !slices.ContainsFunc(elsewhere, func(name string) bool { return strings.HasPrefix(arg, name+"=") }) {
				flags = append(flags, strings.ReplaceAll(arg, "$(POD_NAMESPACE)", testenv.OperatorNamespace))
			}
		}
		return flags, nil
	}
	return nil, errors.New("there is no Deployment of the operator")
}
