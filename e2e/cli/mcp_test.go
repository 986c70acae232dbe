package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	vidramcp "github.com/vidra-operator/vidra/pkg/insight/mcp"
)

// assistant starts `vidra mcp` with a kubeconfig, as an assistant does.
func assistant(t *testing.T, kubeconfig string) *mcp.ClientSession {
	t.Helper()
	cmd := exec.Command(binary, "mcp")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "KUBECONFIG="+kubeconfig, "HOME="+home())
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// asked is the text of the result of a tool, and whether it is an error.
func asked(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) (text string, failed bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	require.NoError(t, err)
	require.Nil(t, result.StructuredContent)
	for _, content := range result.Content {
		one, is := content.(*mcp.TextContent)
		require.True(t, is)
		text += one.Text
	}
	require.LessOrEqual(t, len(text), vidramcp.MaxResult)
	return text, result.IsError
}

// toolsAbout are the arguments with which each tool is asked about an object of a VidraResource.
func toolsAbout(vidraResource, kind, namespace, name string) map[string]map[string]any {
	object := map[string]any{"kind": kind, "namespace": namespace, "name": name}
	return map[string]map[string]any{
		"status": {"name": vidraResource}, "tree": {"name": vidraResource}, "why": object, "blame": object, "history": object, "events": object,
		"diff": {"name": vidraResource}, "forecast": {"name": vidraResource},
	}
}

// TestMCP asks each tool as an assistant does. There is none that writes.
func TestMCP(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "mcp")
	vr := cluster.NewVidraResource(t, "mcp", settings)
	cluster.AwaitReady(t, "mcp")
	require.NoError(t, cluster.MergePatch(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "mcp", Name: "settings"}}, `{"data":{"greeting":"bye"}}`))
	cluster.AwaitEvent(t, vr, corev1.EventTypeNormal, "DriftCorrected", "Restore", "data.greeting")
	awaitText(t, "ConfigMap mcp/settings", "history", "mcp")

	session := assistant(t, cluster.KubeconfigPath)
	require.Contains(t, session.InitializeResult().Instructions, "never instructions")
	tools, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	about := toolsAbout("mcp", "configmap", "mcp", "settings")
	require.Len(t, tools.Tools, len(about))
	var listed strings.Builder
	for _, tool := range tools.Tools {
		require.Contains(t, about, tool.Name)
		require.True(t, tool.Annotations.ReadOnlyHint, tool.Name)
		text, failed := asked(t, session, tool.Name, about[tool.Name])
		require.False(t, failed, "%s: %s", tool.Name, text)
		if tool.Name != "forecast" { // nothing fights
			require.Contains(t, text, "settings", tool.Name)
		}
		listed.WriteString(tool.Name + ": " + tool.Description + "\n")
	}
	golden(t, "mcp", listed.String())
	why, _ := asked(t, session, "why", about["why"])
	require.Contains(t, why, `reverted data.greeting to \"hello\"`)
	require.Equal(t, ok(t, "why", "configmap/settings", "-n", "mcp", "-o", "json"), why, "the JSON of the command line")

	file := map[string]any{"name": "mcp", "file": strings.Replace(settings, "hello", "good day", 1)}
	diff, failed := asked(t, session, "diff", file)
	require.False(t, failed, diff)
	require.Contains(t, diff, `+  greeting: good day`)
	require.Contains(t, diff, `"action": "change"`)
	forecast, failed := asked(t, session, "forecast", file)
	require.False(t, failed, forecast)
	require.Contains(t, forecast, `"vidraResource": "mcp"`)

	for text, call := range map[string]struct {
		tool      string
		arguments map[string]any
	}{
		"VidraResource missing does not exist":  {"tree", map[string]any{"name": "missing"}},
		"ConfigMap mcp/missing does not exist":  {"why", map[string]any{"kind": "configmap", "namespace": "mcp", "name": "missing"}},
		"did you mean mcp":                      {"diff", map[string]any{"name": "mcpp"}},
		"name a VidraResource or files":         {"forecast", map[string]any{}},
		"since \"soon\": want a duration":       {"history", map[string]any{"since": "soon"}},
		"an object has both":                    {"events", map[string]any{"kind": "configmap"}},
		"excludes":                              {"status", map[string]any{"name": "mcp", "selector": "a=b"}},
		"VidraResource mcp has no object in na": {"status", map[string]any{"name": "mcp", "namespace": "default"}},
	} {
		answer, failed := asked(t, session, call.tool, call.arguments)
		require.True(t, failed, answer)
		require.Contains(t, answer, text)
	}
	for _, tool := range []string{"suspend", "resume", "skip", "adopt", "orphan", "reconcile", "apply"} {
		_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"name": "mcp"}})
		require.ErrorContains(t, err, "unknown tool", "%s would write", tool)
	}
	require.False(t, cluster.GetVidraResource(t, "mcp").Spec.Suspend)
}

// TestMCPIsBounded: an answer that is too long is cut, and says so.
func TestMCPIsBounded(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "bounded")
	cluster.NewVidraResource(t, "bounded", suite.Greeting("large", strings.Repeat("word ", 40_000)))
	cluster.AwaitReady(t, "bounded")
	text, failed := asked(t, assistant(t, cluster.KubeconfigPath), "blame", map[string]any{"kind": "configmap", "namespace": "bounded", "name": "large"})
	require.False(t, failed)
	require.Contains(t, text, "bytes and was cut")
	require.Greater(t, len(text), vidramcp.MaxResult/2)
}
