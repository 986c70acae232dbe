package search

import (
	"context"
	"os"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

var (
	// cluster is the control plane, with config/default in it.
	cluster = &suite.Cluster{}
	// admin is a client of its administrator.
	admin client.Client
	// operator runs with default flags. Plans kill and start it.
	operator       *testenv.Operator
	operatorBinary string
	// cli is the command line, and adminKubeconfig its kubeconfig.
	cli, adminKubeconfig string
	// proxies are between the operator and the API server: the first one for the cluster that it runs in, the second one for the destination at
	// another URL.
	proxies [2]*faultproxy.Proxy
)

func TestMain(m *testing.M) {
	suite.Main(m, setUp, cluster.Stop)
}

func setUp(ctx context.Context) (err error) {
	if operatorBinary, err = testenv.BuildOperator(ctx, os.Stderr, false); err != nil {
		return err
	}
	if cli, err = testenv.BuildCLI(ctx, os.Stderr, false); err != nil {
		return err
	}
	if err := cluster.Start(ctx, testenv.Options{Out: os.Stderr, Dir: os.Getenv("VIDRA_E2E_DIR")}); err != nil {
		return err
	}
	admin = cluster.Admin
	if err := cluster.Install(ctx); err != nil {
		return err
	}
	if adminKubeconfig, err = cluster.WriteKubeconfig("admin", cluster.Config); err != nil {
		return err
	}
	crd := testenv.CRD("search")
	if err := apiextensionsv1.AddToScheme(admin.Scheme()); err != nil {
		return err
	}
	if err := admin.Create(ctx, crd); err != nil {
		return err
	}
	account, err := cluster.ServiceAccountKubeconfig(ctx, testenv.OperatorNamespace, testenv.OperatorServiceAccount)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", account)
	if err != nil {
		return err
	}
	for i := range proxies {
		if proxies[i], err = faultproxy.Start(config); err != nil {
			return err
		}
	}
	if err := admin.Create(ctx, kubeconfigOf(proxies[1], config.BearerToken)); err != nil {
		return err
	}
	return startOperator(ctx)
}

func startOperator(ctx context.Context) (err error) {
	operator, err = cluster.StartOperator(ctx, testenv.OperatorOptions{
		Binary: operatorBinary, Config: proxies[0].Config(), Args: []string{"--kubeconfig-namespace=" + testenv.OperatorNamespace},
	})
	return err
}

// kubeconfigOf returns the Secret with which the operator reaches a destination.
func kubeconfigOf(p *faultproxy.Proxy, token string) *corev1.Secret {
	c := clientcmdapi.NewConfig()
	c.Clusters["other"] = &clientcmdapi.Cluster{Server: p.Config().Host, CertificateAuthorityData: p.Config().CAData}
	c.AuthInfos["other"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["other"] = &clientcmdapi.Context{Cluster: "other", AuthInfo: "other"}
	c.CurrentContext = "other"
	text, err := clientcmd.Write(*c)
	if err != nil {
		panic(err) // a kubeconfig of this file
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: "other", Labels: map[string]string{"cluster-kubeconfig": "other"}},
		Data:       map[string][]byte{"kubeconfig": text},
	}
}

// starting is held while ensureOperator starts the operator.
var starting sync.Mutex

// ensureOperator starts the operator unless it is running.
func ensureOperator(ctx context.Context) error {
	starting.Lock()
	defer starting.Unlock()
	select {
	case <-operator.Done():
		return startOperator(ctx)
	default:
		return nil
	}
}
