package e2e

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// filesRead is why a test needs a control plane of its own.
const filesRead = "its operator reads a file of this machine"

// writeHeaders replaces a file as the kubelet replaces that of a mounted Secret: at once.
func writeHeaders(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// sendTo runs an operator that sends CloudEvents with the headers of a file, until the test ends.
func sendTo(t *testing.T, url, headers string) {
	t.Helper()
	stopOperator(t)
	started, err := env.StartOperator(context.Background(), testenv.OperatorOptions{
		Binary: operatorBinary, Args: []string{"--cloudevents-sink=" + url, "--cloudevents-headers-file=" + headers},
	})
	require.NoError(t, err)
	operator = started
	t.Cleanup(func() { require.NoError(t, operator.Stop(stopTimeout)) })
}

// TestCloudEventsHeaders: each CloudEvent has the headers of a file. When the sink wants another token, what it refuses
// is sent again with the token that the file has then. The log has no token. It is not parallel because it restarts the operator.
func TestCloudEventsHeaders(t *testing.T) {
	needsOwnControlPlane(t, filesRead)
	sink := newCloudEventSink(t)
	sink.require(t, "Authorization", "Bearer first-token")
	headers := filepath.Join(t.TempDir(), "headers")
	writeHeaders(t, headers, "Authorization: Bearer first-token\nX-Tenant: shop\n")
	sendTo(t, sink.url(), headers)
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	for _, got := range sink.await(t, "Applied", ns+"/page") {
		require.Equal(t, "shop", got.header.Get("X-Tenant"))
	}
	sink.await(t, "Ready", "VidraResource "+ns+" ") // otherwise it is refused first, and what follows waits for it

	sink.require(t, "Authorization", "Bearer second-token")
	page := declared(t, ns, configMap("page", "hello"))[0]
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	await(t, func(c *assert.CollectT) { require.NotEmpty(c, sink.attempts("DriftCorrected", ns+"/page")) })
	require.Empty(t, sink.taken("DriftCorrected", ns+"/page"), "it has the first token")
	require.NoError(t, os.Remove(headers)) // and that is no reason to drop it
	writeHeaders(t, headers, "Authorization: Bearer second-token\n")
	await(t, func(c *assert.CollectT) { require.Len(c, sink.taken("DriftCorrected", ns+"/page"), 1) })
	require.Contains(t, operatorLog(t), "The sink refuses the credentials of CloudEvents")
	require.NotContains(t, operatorLog(t), "-token")
}

// TestCloudEventsBadHeaders starts operators with files that have no headers, or those of a CloudEvent.
func TestCloudEventsBadHeaders(t *testing.T) {
	t.Parallel()
	needsOwnControlPlane(t, filesRead)
	for text, want := range map[string]string{
		"letmein":               "a line that is no header",
		"":                      "a line that is no header",
		"Ce-Id: letmein":        "has Ce-Id, which each CloudEvent sets",
		"content-type: letmein": "has Content-Type, which each CloudEvent sets",
	} {
		path := filepath.Join(t.TempDir(), "headers")
		writeHeaders(t, path, text)
		_, err := env.StartOperator(context.Background(), testenv.OperatorOptions{
			Binary: operatorBinary, Args: []string{"--cloudevents-sink=http://sink.example", "--cloudevents-headers-file=" + path},
		})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "letmein")
	}
}

// TestCloudEventsSample runs the sample receiver, as docs/cloudevents.md does: it runs its program for a drift, and not for
// another Event. It is not parallel because it restarts the operator.
func TestCloudEventsSample(t *testing.T) {
	needsOwnControlPlane(t, filesRead)
	dir := t.TempDir()
	binary, headers, token, done := filepath.Join(dir, "receiver"), filepath.Join(dir, "headers"), filepath.Join(dir, "token"), filepath.Join(dir, "done")
	root, err := testenv.Root()
	require.NoError(t, err)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./config/samples/cloudevents")
	build.Dir = root
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	writeHeaders(t, headers, "Authorization: Bearer secret-token\n")
	writeHeaders(t, token, "Bearer secret-token\n")
	listener, err := net.Listen("tcp", net.JoinHostPort(suite.ListenAddress(t), "0")) //nolint:noctx // it is closed at once
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	program := `echo "$DRIFT_REASON $DRIFT_OBJECT $DRIFT_FIELDS $DRIFT_WRITERS $DRIFT_VIDRARESOURCE" >> ` + done
	receiver := exec.CommandContext(t.Context(), binary, "--listen", address, "--authorization-file", token, "--", "sh", "-c", program)
	require.NoError(t, receiver.Start())
	t.Cleanup(func() { _ = receiver.Wait() }) // the end of the test kills it

	sendTo(t, "http://"+address+"/", headers)
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	require.NoError(t, mergePatch(declared(t, ns, configMap("page", "hello"))[0], `{"data":{"greeting":"mine"}}`))
	await(t, func(c *assert.CollectT) {
		text, err := os.ReadFile(done) //nolint:gosec // the test wrote it
		require.NoError(c, err)
		require.Equal(c, "DriftCorrected v1/ConfigMap/"+ns+"/page data.greeting person "+ns, strings.TrimSpace(string(text)))
	})
}
