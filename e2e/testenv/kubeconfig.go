package testenv

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// tokenSeconds is how long the tokens of ServiceAccounts are good for.
const tokenSeconds int64 = 24 * 60 * 60

// ServiceAccountKubeconfig asks for a token of a ServiceAccount (TokenRequest,
// good for 24 hours) and returns the path of a kubeconfig with it: a client that uses
// that may do what the ServiceAccount may do, and nothing else.
func (e *Env) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	token, err := e.token(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	cfg := rest.AnonymousClientConfig(e.Config)
	cfg.BearerToken = token
	return e.WriteKubeconfig(namespace+"."+name, cfg)
}

// token asks for a token of a ServiceAccount.
func (e *Env) token(ctx context.Context, namespace, name string) (string, error) {
	c, err := kubernetes.NewForConfig(e.Config)
	if err != nil {
		return "", err
	}
	token, err := c.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(tokenSeconds)},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return token.Status.Token, nil
}

// Kubeconfig is the text of a kubeconfig that reaches an API server as cfg does, with
// a client certificate or a token.
func Kubeconfig(cfg *rest.Config) ([]byte, error) {
	return clientcmd.Write(*newKubeconfig(cfg))
}

// writeKubeconfig writes a kubeconfig that reaches the API server as cfg does.
// Only its owner can read the file.
func writeKubeconfig(path string, cfg *rest.Config) error {
	if err := clientcmd.WriteToFile(*newKubeconfig(cfg), path); err != nil { // mode 0600
		return fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	return nil
}

func newKubeconfig(cfg *rest.Config) *api.Config {
	const name = "vidra-testenv"
	k := api.NewConfig()
	k.Clusters[name] = &api.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	k.AuthInfos[name] = &api.AuthInfo{
		ClientCertificateData: cfg.CertData,
		ClientKeyData:         cfg.KeyData,
		Token:                 cfg.BearerToken,
		Impersonate:           cfg.Impersonate.UserName,
		ImpersonateGroups:     cfg.Impersonate.Groups,
	}
	k.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name, Namespace: metav1.NamespaceDefault}
	k.CurrentContext = name
	return k
}
