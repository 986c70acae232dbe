package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestTokenStays: a proxy before the API server repeats the token of the user in a refusal.
func TestTokenStays(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("no route for " + r.Header.Get("Authorization")))
	}))
	defer server.Close()
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL, InsecureSkipTLSVerify: true}
	file.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "hunter2"}
	file.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*file, path))
	k := newKube()
	*k.KubeConfig = path
	config, err := k.config()
	require.NoError(t, err)
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = clients.CoreV1().RESTClient().Get().AbsPath("/api").DoRaw(t.Context())
	require.ErrorContains(t, err, "no route for Bearer ***")
}
