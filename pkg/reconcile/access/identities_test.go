package access

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// behindProxy is a cluster whose requests a server answers.
type behindProxy struct {
	Destination

	client dynamic.Interface
}

func (b behindProxy) Name() string                        { return "east" }
func (b behindProxy) Dynamic() dynamic.Interface          { return b.client }
func (b behindProxy) Kubeconfig() (digest, secret string) { return "", "" }

// TestAnswersOfProxies: a text of a proxy is no answer of the API server. A 403 shows no missing right, and a 404 no absence of a Namespace.
func TestAnswersOfProxies(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		media, text string
		code        int
		forbidden   bool
	}{
		"No right": {"application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"namespaces \"kube-system\" is forbidden: User \"vidra\" cannot list"}`, http.StatusForbidden, true},
		"403":      {"text/html", "<html>Access denied</html>", http.StatusForbidden, false},
		"404":      {"text/plain", "404 page not found", http.StatusNotFound, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.media)
				w.WriteHeader(tc.code)
				_, _ = w.Write([]byte(tc.text))
			}))
			t.Cleanup(server.Close)
			client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL, Transport: &http.Transport{DisableKeepAlives: true}})
			require.NoError(t, err)
			at := behindProxy{client: client}
			_, err = (&Identities{}).Of(t.Context(), at)
			require.Error(t, err)
			require.Equal(t, tc.forbidden, apierrors.IsForbidden(err), err)
			_, err = GetAsVidra(t.Context(), at, trigger.ObjectKey{GVR: Namespaces, Name: metav1.NamespaceSystem})
			require.Error(t, err, "unknown")
		})
	}
}
