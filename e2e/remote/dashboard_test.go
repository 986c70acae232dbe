package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// emptyPanels are the queries that need not return a series in TestDashboard, by title and number,
// with the reason.
var emptyPanels = map[string]string{
	"Leader 0":              "the operator of these tests runs without --leader-elect",
	"Delayed heals 0":       "heals are delayed after 100 in a short time: TestF23Fight of package e2e has them",
	"Restarts 0":            "no API server ends a watch within the test, unless another test has it do so",
	"Missed changes 0":      "only a defect makes one",
	"Events 1":              "no CloudEvents sink is set",
	"Not Ready by reason 0": "unless another test has a VidraResource that is not Ready",
}

// dashboard is the part of a Grafana dashboard that is tested.
type dashboard struct {
	Panels []struct {
		Type, Title, Description string
		Targets                  []struct{ Expr string }
	}
}

// TestDashboard runs each query of the dashboard with the engine of Prometheus, on scrapes of the
// operator between which it healed objects of both clusters, one of which is contended. A second scrape of the same Pod, as by another job, changes no
// panel.
func TestDashboard(t *testing.T) {
	names, queries, rows := panels(t)
	require.Equal(t, []string{"Health", "Heals", "Drift by manager", "Watches", "Work queue and API requests", "Resources"}, rows)

	d, _ := newDestination(t)
	local := unique(t) + "-local"
	here.MakeNamespace(t, local)
	here.NewVidraResource(t, local, greeting("page", "hello"))
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	awaitReady(t, local)
	awaitReady(t, d.name)
	var scrapes []string
	reconciles := func(c require.TestingT) int {
		return suite.Metric(c, operator, `controller_runtime_reconcile_time_seconds_count{controller="vidraresource"`)
	}
	for round, edits := range []int{6, 2} { // a field that was reverted 6 times in a minute is contended
		before := reconciles(t)
		for i := range edits {
			change(t, here, local, fmt.Sprintf(`{"data":{"greeting":"bye %d %d"}}`, round, i))
		}
		change(t, here, local, `{"data":{"greeting":null}}`)
		change(t, there, d.name, fmt.Sprintf(`{"data":{"greeting":"bye %d"}}`, round))
		require.NoError(t, there.Admin.Delete(t.Context(), configMap(d.name, "page")))
		there.awaitSays(t, d.name, "page", "hello")
		await(t, func(c *assert.CollectT) {
			require.Positive(c, suite.Metric(c, operator, `vidra_resources{reason="DriftContended"`))
			require.Greater(c, reconciles(c), before, "heals need none, until the status counts them")
		})
		scrapes = append(scrapes, scrape(t))
	}
	target, twice := map[string]string{"job": "vidra", "instance": "operator:8443"}, []string(nil)
	for _, text := range scrapes {
		twice = append(twice, scrapedTwice(text))
	}
	again := ask(t, twice, target, queries)
	for i, found := range ask(t, scrapes, target, queries) {
		require.Empty(t, found.Error, "%s: %s", names[i], queries[i])
		assert.InDeltaMapValues(t, found.Series, again[i].Series, 1e-9, "%s, scraped twice: %s", names[i], queries[i])
		if emptyPanels[names[i]] == "" {
			require.NotEmpty(t, found.Series, "%s: %s", names[i], queries[i])
		}
	}
}

// TestDashboardOfShards: the panels about VidraResources count those of all shards, and those of a shard once, whose standby reports them, too. A Pod may
// be scraped twice. Without leader election there is one operator.
func TestDashboardOfShards(t *testing.T) {
	const scraped = `vidra_resources{instance="blue-1",type="Ready",status="True",reason="Applied"} 3
vidra_resources{instance="blue-2",type="Ready",status="True",reason="Applied"} 3
vidra_resources{instance="green-1",type="Ready",status="True",reason="Applied"} 5
vidra_resources{instance="blue-1",type="Ready",status="False",reason="ApplyFailed"} 1
vidra_resources{instance="blue-2",type="Ready",status="False",reason="ApplyFailed"} 1
vidra_resources{instance="green-1",type="Ready",status="False",reason="ApplyFailed"} 1
vidra_resources{instance="green-1",type="Ready",status="Unknown",reason="Starting"} 1
vidra_resources{instance="blue-1",type="Drifted",status="True",reason="DriftContended"} 1
vidra_resources{instance="green-1",type="Drifted",status="True",reason="DriftContended"} 2
`
	const leaders = `leader_election_master_status{instance="blue-1",name="blue.vidra-operator.infrahub.operators.com"} 1
leader_election_master_status{instance="blue-2",name="blue.vidra-operator.infrahub.operators.com"} 0
leader_election_master_status{instance="green-1",name="green.vidra-operator.infrahub.operators.com"} 1
`
	names, queries, _ := panels(t)
	counts := func(text string) map[string]map[string]float64 {
		all := map[string]map[string]float64{}
		for i, found := range ask(t, []string{text}, map[string]string{"job": "vidra"}, queries) {
			require.Empty(t, found.Error, "%s: %s", names[i], queries[i])
			all[names[i]] = found.Series
		}
		return all
	}
	shards := counts(scrapedTwice(scraped + leaders))
	require.Equal(t, map[string]float64{"{}": 8}, shards["Ready 0"])
	require.Equal(t, map[string]float64{"{}": 3}, shards["Not Ready 0"])
	require.Equal(t, map[string]float64{`{reason="ApplyFailed"}`: 2, `{reason="Starting"}`: 1}, shards["Not Ready by reason 0"])
	require.Equal(t, map[string]float64{`{reason="DriftContended"}`: 3}, shards["Drifted VidraResources 0"])
	require.Equal(t, map[string]float64{"{}": 5}, counts(scrapedTwice(scraped))["Ready 0"])
	require.Equal(t, map[string]float64{"{}": 0}, counts(leaders)["Not Ready 0"])
}

// sample is the begin of a sample in the text of a scrape, with or without labels.
var sample = regexp.MustCompile(`(?m)^([a-z_]+)[{ ]`)

// scrapedTwice adds each sample with another label to a scrape.
func scrapedTwice(text string) string {
	return text + sample.ReplaceAllStringFunc(text, func(begin string) string {
		if name, labels := strings.CutSuffix(begin, "{"); labels {
			return name + `{scraped="twice",`
		}
		return strings.TrimSpace(begin) + `{scraped="twice"} `
	})
}

// panels returns the names of the queries of the dashboard, by title and number, the queries, and the titles of the rows.
func panels(t *testing.T) (names, queries, rows []string) {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "config", "grafana", "vidra.json"))
	require.NoError(t, err)
	var board dashboard
	require.NoError(t, json.Unmarshal(text, &board))
	for _, panel := range board.Panels {
		if panel.Type == "row" {
			rows = append(rows, panel.Title)
			continue
		}
		require.NotEmpty(t, panel.Description, panel.Title)
		for i, target := range panel.Targets {
			names = append(names, fmt.Sprintf("%s %d", panel.Title, i))
			queries = append(queries, strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$job", ".+").Replace(target.Expr))
		}
	}
	return names, queries, rows
}

// change has a person edit the ConfigMap page of a namespace, and waits for the heal.
func change(t *testing.T, at site, namespace, patch string) {
	t.Helper()
	at.edit(t, configMap(namespace, "page"), "%s", patch)
	at.awaitSays(t, namespace, "page", "hello")
}

// scrape returns the metrics of the operator.
func scrape(t *testing.T) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, operator.MetricsURL, http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text)
}

// found is the result of a query.
type found struct {
	Error  string
	Series map[string]float64
}

// ask has Prometheus store scrapes of a target with labels, which count as made 30 seconds apart, and run queries.
func ask(t *testing.T, scrapes []string, labels map[string]string, queries []string) (all []found) {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	in, err := json.Marshal(map[string]any{
		"scrapes": scrapes, "interval": 30, "queries": queries, "labels": labels,
	})
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), "go", "run", "-C", filepath.Join(root, "e2e", "prometheus"), ".", "query")
	var printed bytes.Buffer
	command.Stdin, command.Stderr = bytes.NewReader(in), &printed
	out, err := command.Output()
	require.NoError(t, err, printed.String())
	require.NoError(t, json.Unmarshal(out, &all))
	require.Len(t, all, len(queries))
	return all
}
