package cluster

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// TestRepeatedCredentials: a proxy before an API server repeats the credentials of a request in a refusal or a warning.
func TestRepeatedCredentials(t *testing.T) {
	t.Parallel()
	const password = confidential + `"<p&w`
	for name, user := range map[string]*clientcmdapi.AuthInfo{"token": {Token: confidential + "-0123456789"}, "password": {Username: "me", Password: password}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				_, login, _ := r.BasicAuth()
				said := r.Header.Get("Authorization") + " " + login
				switch r.Method {
				case http.MethodDelete:
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusForbidden)
					_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":%q}`, "no "+said)
				case http.MethodPost:
					w.Header().Set("Warning", fmt.Sprintf("299 - %q", "was "+said))
					answer(w)
				default:
					if r.URL.Path == "/version" {
						answer(w)
						return
					}
					w.WriteHeader(http.StatusInternalServerError)
					_, _ = fmt.Fprint(w, "no "+said)
				}
			})
			secrets := &secretsOf{}
			secrets.put("s", write(t, one(&clientcmdapi.Cluster{Server: server.URL, InsecureSkipTLSVerify: true}, user)))
			d, _ := newDestinations(t, secrets)
			warnings := &recordedWarnings{}
			d.opts.Warnings = warnings
			c, err := d.Get(server.URL)
			require.NoError(t, err)
			awaitReachable(t, c)
			objects := c.Dynamic().Resource(configMaps).Namespace("default")
			refused := get(t, c.Dynamic())
			require.ErrorContains(t, refused, "no B")
			forbidden := objects.Delete(t.Context(), "x", metav1.DeleteOptions{})
			require.ErrorContains(t, forbidden, "no B")
			_, err = objects.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}, metav1.CreateOptions{})
			require.NoError(t, err)
			require.Len(t, *warnings, 1)
			for _, text := range []string{refused.Error(), forbidden.Error(), (*warnings)[0]} {
				require.NotContains(t, text, confidential)
				require.NotContains(t, text, base64.StdEncoding.EncodeToString([]byte("me:"+password)))
				require.Contains(t, text, "***")
			}
		})
	}
}

// TestMalformedAnswer: net/http quotes the line of a server that repeats the header of the request.
func TestMalformedAnswer(t *testing.T) {
	t.Parallel()
	echo := listen(t, func(conn net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nAuthorization Bearer "+confidential+"\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	client := &http.Client{Transport: WithoutCredentials(&http.Transport{})}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+echo.Addr().String(), http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+confidential)
	response, err := client.Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	require.ErrorContains(t, err, "Authorization Bearer ***")
}

// TestWithheldBody reads bodies in parts of any size.
func TestWithheldBody(t *testing.T) {
	t.Parallel()
	credentials := display.NewCredentials(confidential)
	for _, text := range []string{"", confidential, "a" + confidential, confidential[:3], strings.Repeat(confidential+" ", 5000), strings.Repeat("x", 8<<10-3) + confidential + "y"} {
		for name, source := range map[string]io.Reader{"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)), "end with data": iotest.DataErrReader(strings.NewReader(text))} {
			read, err := io.ReadAll(iotest.OneByteReader(&withheldBody{ReadCloser: io.NopCloser(source), credentials: credentials}))
			require.NoError(t, err)
			require.Equal(t, strings.ReplaceAll(text, confidential, "***"), string(read), name)
		}
	}
	_, err := io.ReadAll(&withheldBody{ReadCloser: io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), credentials: credentials})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
