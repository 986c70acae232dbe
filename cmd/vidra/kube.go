package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/writes"
)

// kube is the cluster that the flags of kubectl name. All commands share it.
type kube struct{ *genericclioptions.ConfigFlags }

// newKube returns the flags with the defaults of kubectl.
func newKube() *kube { return &kube{genericclioptions.NewConfigFlags(true)} }

// config finds the cluster as kubectl does: in the named file, the files of KUBECONFIG or ~/.kube/config, or else in the Pod
// that this runs in.
func (k *kube) config() (*rest.Config, error) {
	config, err := k.ToRESTConfig()
	if err == nil && k.unnamed() { // kubectl would take a server on this machine
		err = clientcmd.ErrEmptyConfig
	}
	switch {
	case err == nil:
		config.QPS, config.Burst = -1, 0 // the API server limits, not we
		config.Wrap(cluster.WithoutCredentials)
		return config, nil
	case *k.KubeConfig != "":
		return nil, fmt.Errorf("--kubeconfig %s: %w", *k.KubeConfig, err)
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("no cluster is named: set KUBECONFIG or --kubeconfig: %w", err)
	}
	return nil, fmt.Errorf("read the kubeconfig: %w", err)
}

// unnamed reports whether nothing names a cluster.
func (k *kube) unnamed() bool {
	raw, err := k.ToRawKubeConfigLoader().RawConfig()
	if err != nil || len(raw.Clusters) > 0 || *k.APIServer != "" {
		return false
	}
	_, err = rest.InClusterConfig()
	return err != nil
}

// namespace is --namespace, or else the namespace in the context of the kubeconfig.
func (k *kube) namespace() (string, error) {
	if err := validateNamespace("namespace", *k.Namespace); err != nil {
		return "", err
	}
	namespace, _, err := k.ToRawKubeConfigLoader().Namespace()
	return cmp.Or(namespace, metav1.NamespaceDefault), err
}

// insight returns a client for questions.
func (k *kube) insight() (*insight.Client, error) { return new(operatorFlags).client(k) }

// writes returns a client for writes.
func (k *kube) writes() (*writes.Client, error) { return new(operatorFlags).writes(k) }

// reachable adds the next step to an error of the network.
func reachable(err error) error {
	if request, is := errors.AsType[*url.Error](err); is && errors.As(request.Err, new(net.Error)) {
		return fmt.Errorf("the API server cannot be reached: check --context, --kubeconfig and the network: %w", err)
	}
	return err
}
