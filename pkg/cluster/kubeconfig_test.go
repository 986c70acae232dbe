package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestReadKubeconfig: what cannot be read is told by name, and nothing of it is quoted.
func TestReadKubeconfig(t *testing.T) {
	t.Parallel()
	good := write(t, one(&clientcmdapi.Cluster{Server: "https://h"}, &clientcmdapi.AuthInfo{Token: confidential}))
	noCluster := one(&clientcmdapi.Cluster{Server: "https://h"}, &clientcmdapi.AuthInfo{Token: confidential})
	noCluster.Contexts["y"] = &clientcmdapi.Context{Cluster: "gone", AuthInfo: "u"}
	noCluster.Contexts["z"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "gone"}
	secretURL := one(&clientcmdapi.Cluster{Server: "https://me:" + confidential + "@h"}, &clientcmdapi.AuthInfo{})
	tests := map[string]struct {
		data map[string]string
		// want is how many contexts can be read.
		want    int
		wantErr []string
	}{
		"kubeconfig":           {map[string]string{"kubeconfig": good, "value": "{", "other": "{"}, 1, nil},
		"value":                {map[string]string{"value": good, "config": "{"}, 1, nil},
		"config":               {map[string]string{"config": good, "other": "{"}, 1, nil},
		"the only key":         {map[string]string{"admin.conf": good}, 1, nil},
		"no key that is known": {map[string]string{"a": good, "b": good}, 0, []string{`"kubeconfig", "value" or "config"`}},
		"no data":              {nil, 0, []string{"no data key"}},
		"empty":                {map[string]string{"kubeconfig": ""}, 0, []string{"no contexts"}},
		"not YAML":             {map[string]string{"kubeconfig": "a: b: " + confidential}, 0, []string{"no kubeconfig"}},
		"text":                 {map[string]string{"kubeconfig": confidential}, 0, []string{"no kubeconfig"}},
		"a field of another type": {
			map[string]string{"kubeconfig": "apiVersion: v1\nkind: Config\nusers: " + confidential}, 0, []string{"no kubeconfig"},
		},
		"data that is no base64": {
			map[string]string{"kubeconfig": "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {certificate-authority-data: '" + confidential + "!'}}]"},
			0, []string{"no kubeconfig"},
		},
		"another kind":             {map[string]string{"kubeconfig": "apiVersion: v1\nkind: " + confidential}, 0, []string{"no kubeconfig"}},
		"one context of three":     {map[string]string{"kubeconfig": write(t, noCluster)}, 1, []string{`context "y": there is no cluster "gone"`, `context "z": there is no user "gone"`}},
		"a password in the server": {map[string]string{"kubeconfig": write(t, secretURL)}, 0, []string{`cluster "c": server`, "password"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := map[string][]byte{}
			for key, value := range tc.data {
				data[key] = []byte(value)
			}
			got, err := readKubeconfig("ns/s", data)
			require.Len(t, got, tc.want)
			if tc.wantErr == nil {
				require.NoError(t, err)
			}
			for _, text := range tc.wantErr {
				require.ErrorContains(t, err, text)
				require.NotContains(t, err.Error(), confidential)
			}
		})
	}
}

// TestRefusedKubeconfigs has each field that would make Vidra read its machine, or
// that contradicts another.
func TestRefusedKubeconfigs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)
		want   string
		// flag is the one of the operator that allows it; empty if none does.
		flag string
	}{
		"no verification": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.InsecureSkipTLSVerify = true }, "insecure-skip-tls-verify", AllowInsecureFlag},
		"no TLS":          {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "http://h" }, "without TLS", AllowInsecureFlag},
		"proxy-url": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.ProxyURL = "http://me:" + confidential + "@h"
		}, "proxy-url", AllowProxiesFlag},
		"certificate-authority": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthority = "/" + confidential }, `cluster "c" has certificate-authority,`, ""},
		"client-certificate":    {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ClientCertificate = confidential }, `user "u" has client-certificate,`, ""},
		"client-key":            {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ClientKey = confidential }, `user "u" has client-key,`, ""},
		"tokenFile":             {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.TokenFile = confidential }, `user "u" has tokenFile,`, ""},
		"exec": {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{Command: confidential, InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		}, `user "u" has exec,`, ""},
		"auth-provider": {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: confidential}
		}, `user "u" has auth-provider,`, ""},
		"the scheme of proxy-url": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.ProxyURL = "file://me:" + confidential + "@h"
		}, "proxy-url", ""},
		"a proxy-url that is none": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.ProxyURL = "http://me:" + confidential + "@h:x"
		}, "proxy-url", ""},
		"certificate-authority-data": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.CertificateAuthorityData = []byte(confidential)
		}, "certificate-authority-data", ""},
		"client-certificate-data": {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.ClientCertificateData = []byte(confidential)
		}, "client-certificate-data", ""},
		"client-key-data":                {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ClientKeyData = []byte(confidential) }, "client-key-data", ""},
		"two kinds of credentials":       {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Username, u.Password = "me", confidential }, "contradictory", ""},
		"a group, but no user to act as": {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ImpersonateGroups = []string{confidential} }, "contradictory", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, user := &clientcmdapi.Cluster{Server: "https://h"}, &clientcmdapi.AuthInfo{Token: confidential}
			tc.change(cluster, user)
			s := sourceOf(t, "s", write(t, one(cluster, user)))
			require.NoError(t, s.err, "it can be read, and matched")
			require.Len(t, s.all, 1)
			_, err := s.all[0].restConfig(policy{insecure: tc.flag == "", proxies: tc.flag == ""})
			require.ErrorContains(t, err, tc.want)
			if tc.flag != "" {
				require.ErrorContains(t, err, "--"+tc.flag)
				_, err := s.all[0].restConfig(policy{insecure: tc.flag == AllowInsecureFlag, proxies: tc.flag == AllowProxiesFlag})
				require.NoError(t, err)
			}
			require.ErrorContains(t, err, "Secret ns/s")
			require.NotContains(t, err.Error(), confidential)
		})
	}
}

// TestProxiesOfKubeconfigs: the three kinds that client-go speaks to are used.
func TestProxiesOfKubeconfigs(t *testing.T) {
	t.Parallel()
	for _, proxy := range []string{"http://p:1", "https://p:1", "socks5://p:1"} {
		s := sourceOf(t, "s", write(t, one(&clientcmdapi.Cluster{Server: "https://h", ProxyURL: proxy}, &clientcmdapi.AuthInfo{})))
		config, err := s.all[0].restConfig(policy{proxies: true})
		require.NoError(t, err)
		u, err := config.Proxy(nil)
		require.NoError(t, err)
		require.Equal(t, proxy, u.String())
	}
}

// TestSameAccess: what other tools note in a kubeconfig is no rotation.
func TestSameAccess(t *testing.T) {
	t.Parallel()
	of := func(token, noted string) *access {
		noting := map[string]runtime.Object{"x": &runtime.Unknown{Raw: []byte(`{"at":"` + noted + `"}`)}}
		cluster := &clientcmdapi.Cluster{Server: "https://h", Extensions: noting}
		user := &clientcmdapi.AuthInfo{Token: token, Extensions: noting}
		return sourceOf(t, "s", write(t, one(cluster, user))).all[0]
	}
	require.True(t, of("a", "1").same(of("a", "2")))
	require.False(t, of("a", "1").same(of("b", "1")))
}

// TestNothingIsReadOfTheMachine: a kubeconfig that names no cluster or user is not
// filled up with those of the environment.
func TestNothingIsReadOfTheMachine(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	t.Setenv("KUBERNETES_MASTER", "https://elsewhere")
	t.Setenv("KUBERNETES_SERVICE_HOST", "elsewhere")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	got, err := readKubeconfig("ns/s", map[string][]byte{"kubeconfig": []byte("apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {}}]")})
	require.Empty(t, got)
	require.ErrorContains(t, err, `there is no cluster ""`)

	s := sourceOf(t, "s", write(t, one(&clientcmdapi.Cluster{Server: "https://h/p"}, &clientcmdapi.AuthInfo{})))
	config, err := s.all[0].restConfig(policy{})
	require.NoError(t, err)
	require.Equal(t, "https://h/p", config.Host)
	require.Empty(t, config.BearerToken)
	require.Empty(t, config.BearerTokenFile)
}
