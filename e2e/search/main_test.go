package search

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
)

var (
	// cluster is the control plane, with config/default in it.
	cluster = &suite.Cluster{}
	// admin is a client of its administrator.
	admin client.Client
	// operators are those of the cluster: one with default flags, but in searches with shards.
	operators      []*process
	operatorBinary string
	// cli is the command line, and adminKubeconfig its kubeconfig.
	cli, adminKubeconfig string
	// proxies are between operators and the API server: the first one for the cluster that the operator runs in, the second one for the destination at
	// another URL, the third one for the cluster of the second operator.
	proxies [3]*faultproxy.Proxy
)

const (
	destinationProxy = 1
	secondProxy      = 2
)

func TestMain(m *testing.M) {
	suite.Main(m, setUp, cluster.Stop)
}

func setUp(ctx context.Context) (err error) {
	if operatorBinary = os.Getenv(operatorVariable); operatorBinary == "" {
		if operatorBinary, err = testenv.BuildOperator(ctx, os.Stderr, false); err != nil {
			return err
		}
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
	if err := apiextensionsv1.AddToScheme(admin.Scheme()); err != nil {
		return err
	}
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{testenv.CRD("search"), testenv.FluxCRD("ExternalArtifact")} {
		if err := admin.Create(ctx, crd); err != nil {
			return err
		}
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
	if err := startInfrahub(ctx); err != nil {
		return err
	}
	port, err := testenv.FreePort()
	if err != nil {
		return err
	}
	at := "127.0.0.1:" + strconv.Itoa(port)
	operators = []*process{{proxy: proxies[0], args: []string{"--infrahub-publish-bind-address=" + at, "--infrahub-publish-url=http://" + at, "--artifact-hosts=127.0.0.1"}}}
	return startOperators(ctx)
}

// process is an operator, which searches kill and start.
type process struct {
	// proxy is between it and the cluster in which it runs.
	proxy *faultproxy.Proxy
	args  []string
	// mu is held while it is started or killed.
	mu sync.Mutex
	*testenv.Operator
}

// start starts the operator unless it is running.
func (p *process) start(ctx context.Context) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return nil
	}
	p.Operator, err = cluster.StartOperator(ctx, testenv.OperatorOptions{
		Binary: operatorBinary, Config: p.proxy.Config(), Args: append([]string{"--kubeconfig-namespace=" + testenv.OperatorNamespace, "--zap-log-level=debug"}, p.args...),
	})
	return err
}

// kill kills the operator if it is running.
func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil
	}
	kills.Add(1)
	return p.Kill()
}

// operatorLogs returns the log files of operators, also of those that were killed.
func operatorLogs() (all []string) {
	for _, p := range operators {
		if p.Operator != nil {
			logs, _ := filepath.Glob(filepath.Join(filepath.Dir(p.Log), "operator-*.log")) // the pattern is valid
			all = append(all, logs...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all) // operators of one environment share a folder
}

func (p *process) running() bool {
	if p.Operator == nil {
		return false
	}
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// rotateKey makes another key of digests the current one, beside the former ones. The operators that start next have it.
func rotateKey(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := admin.Get(ctx, client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: seal.SecretName}, secret); client.IgnoreNotFound(err) != nil {
		return err
	}
	if len(secret.Data) == 0 {
		return nil // another plan has lost it
	}
	secret.Data["former-"+strconv.Itoa(len(secret.Data))], secret.Data["current"] = secret.Data["current"], seal.NewKey()
	if err := admin.Update(ctx, secret); !apierrors.IsConflict(err) { // another plan rotates it
		return err
	}
	return nil
}

// kills counts the kills of operators.
var kills atomic.Int64

func startOperators(ctx context.Context) error {
	for _, p := range operators {
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func killOperators() error {
	for _, p := range operators {
		if err := p.kill(); err != nil {
			return err
		}
	}
	return nil
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
