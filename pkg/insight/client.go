package insight

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/dryrun"
	"github.com/vidra-operator/vidra/pkg/source"
)

// Program is the name of the asking program on the user's command line. Answers propose commands of it.
type Program string

// DefaultProgram is the name of the command line.
const DefaultProgram Program = "vidra"

// Hint returns a command that a message proposes, as the user types it.
func (p Program) Hint(command string, args ...string) string {
	return strings.Join(append([]string{string(cmp.Or(p, DefaultProgram)), command}, args...), " ")
}

// SkipHint returns the command that exempts an object from reverts.
func (p Program) SkipHint(argument string) string {
	return p.Hint("skip", argument, `--for 1h --reason "WHY"`)
}

// Options configure a Client. The zero value is usable.
type Options struct {
	// Program is the name of this program on the user's command line. Defaults to DefaultProgram.
	Program Program
	// KubeconfigNamespace is the namespace of the Secrets with the kubeconfigs of other clusters; * for all. Defaults to
	// dryrun.DefaultKubeconfigNamespace.
	KubeconfigNamespace string
	// Operator are the settings of the operator, for Diff and Forecast.
	Operator Operator
	// VidraResources reads VidraResources, such as the store of a watch. Defaults to a request for each question.
	VidraResources VidraResources
}

// Client asks the API server of one cluster, with the rights of one user. Its methods are safe for concurrent use.
type Client struct {
	program   Program
	resources VidraResources
	dynamic   dynamic.Interface
	events    typedeventsv1.EventsV1Interface
	kinds     discovery.CachedDiscoveryInterface
	mapper    meta.RESTMapper
	// sources reads the parts that spec.manifestFrom names.
	sources source.Kinds

	// operator, config, cluster and destinations are for dry runs.
	operator     decisions
	config       *rest.Config
	cluster      *cluster.Cluster
	destinations dryrun.Destinations
}

// New returns a Client for the API server of config. It sends no request.
func New(config *rest.Config, o Options) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0 // the API server limits, not we
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	c := &Client{program: cmp.Or(o.Program, DefaultProgram), resources: o.VidraResources, config: config}
	if c.operator, err = o.Operator.decisions(); err != nil {
		return nil, err
	}
	c.destinations.Namespace = o.KubeconfigNamespace
	c.destinations.AllowInsecure, c.destinations.AllowProxies = o.Operator.AllowInsecureKubeconfigs, o.Operator.AllowKubeconfigProxies
	if c.cluster, err = cluster.New(config); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	if c.sources, err = c.operator.sources(config, c.cluster); err != nil {
		return nil, err
	}
	if c.resources == nil {
		c.resources = Requested(c.dynamic)
	}
	if c.events, err = typedeventsv1.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	c.kinds = memory.NewMemCacheClient(kinds)
	c.mapper = restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(c.kinds), c.kinds, nil)
	return c, nil
}
