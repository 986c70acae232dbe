package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/stopwatch"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/cluster"
)

// remotesOptions are the flags of remotes.
type remotesOptions struct {
	clusters int
	perOwner int
	edits    int
	delay    time.Duration
	timeout  time.Duration
}

func (o *remotesOptions) flags(fs *flag.FlagSet) {
	fs.IntVar(&o.clusters, "clusters", 10, "How many clusters there are; one of them becomes slow, and one dead.")
	fs.IntVar(&o.perOwner, "per-resource", 20, "How many ConfigMaps are in the VidraResource of each.")
	fs.IntVar(&o.edits, "rounds", 10, "How many edits are made on each side, before and after.")
	fs.DurationVar(&o.delay, "delay", 500*time.Millisecond, "How much later the slow cluster answers each request.")
	fs.DurationVar(&o.timeout, "timeout", 3*time.Minute, "How long a part of it may take.")
}

func (o *remotesOptions) check() error {
	if o.clusters < 3 {
		return fmt.Errorf("-clusters is %d: at least 3 are needed, a healthy one, a slow one and a dead one", o.clusters)
	}
	return errors.Join(atLeastOne("per-resource", o.perOwner), atLeastOne("rounds", o.edits))
}

func (o *remotesOptions) setup() setup {
	return setup{args: []string{"--kubeconfig-namespace=" + testenv.OperatorNamespace}}
}

// The slow cluster and the dead one. All others are healthy.
const slowCluster, deadCluster = 1, 2

// remotes are the clusters: one API server behind a proxy for each, and with a namespace for each.
type remotes struct {
	env     *testenv.Env
	proxies []*faultproxy.Proxy
	dynamic dynamic.Interface
	// floorConfig is a kubeconfig for the first cluster.
	floorConfig string
}

// measure measures how long it takes until all clusters have their objects, and how long an edit in one of
// them stands; then the same once more while one cluster is slow and one is dead, in those that are healthy.
func (o *remotesOptions) measure(ctx context.Context, l *lab) (_ *report, err error) {
	far, err := startRemotes(ctx, l, o.clusters)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, far.close()) }()
	r := &report{
		Settings:    fmt.Sprintf("%d clusters, a VidraResource with %d ConfigMaps in each, %d edits", o.clusters, o.perOwner, o.edits),
		Environment: l.environment,
	}
	mark, used := l.env.AuditMark(), readUsage(l.operator.PID)
	if err := o.phase(ctx, l, far, r, 0); err != nil {
		return nil, err
	}
	far.proxies[slowCluster].Inject(faultproxy.Match{}, faultproxy.Delay(o.delay))
	far.proxies[deadCluster].Down()
	if err := o.phase(ctx, l, far, r, 1); err != nil {
		return nil, fmt.Errorf("with a slow and a dead cluster: %w", err)
	}
	audited, err := l.env.AuditSince(mark)
	if err != nil {
		return nil, err
	}
	c := r.cost(vidraSide)
	c.Usage, c.Requests = readUsage(l.operator.PID).since(used), countRequests(audited, operatorUser)
	c.Of, c.Per = 2*o.clusters, "VidraResource, in its own cluster"
	r.sumUp()
	r.Notes = append(r.Notes,
		"All clusters are one API server, each behind a proxy of its own and limited to a namespace of its own. The floor applies the objects of one "+
			"cluster after another through one of these proxies, and watches the namespace of one.",
		fmt.Sprintf("The slow cluster answers each request %s later. The dead one refuses connections.", o.delay))
	return r, nil
}

// phase rolls out to each cluster, and edits an object in the first one. In the second phase, the slow
// cluster is measured alone, and the dead one gets nothing.
func (o *remotesOptions) phase(ctx context.Context, l *lab, far *remotes, r *report, phase int) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	state, healthy := ", all clusters healthy", o.clusters
	if phase > 0 {
		state, healthy = ", one cluster slow and one dead", o.clusters-2
	}
	floor := batch{round: 8000 + 100*phase, sets: healthy, perSet: o.perOwner}
	args := append([]string{applierCommand, "-kubeconfig", far.floorConfig, "-namespace", far.namespace(0)}, floor.args()...)
	done, err := runWork(ctx, "the floor", args...)
	if err != nil {
		return err
	}
	r.add("all objects applied"+state, "s", floorSide, done.Seconds)
	r.cost(floorSide).Usage.add(done.Usage)
	began := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	ready := make([]float64, o.clusters)
	for i := range o.clusters {
		group.Go(func() error {
			b := batch{round: 8001 + 100*phase + i, sets: 1, perSet: o.perOwner, server: far.proxies[i].Config().Host, namespace: far.namespace(i)}
			if phase > 0 && i == deadCluster {
				return l.eachResource(groupCtx, b, l.create)
			}
			err := l.rollOut(groupCtx, b)
			ready[i] = time.Since(began).Seconds()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	last := 0.0
	for i, seconds := range ready {
		switch {
		case phase > 0 && i == slowCluster:
			r.add("objects of the slow cluster applied", "s", vidraSide, seconds)
		case phase == 0 || i != deadCluster:
			last = max(last, seconds)
		}
	}
	r.add("all objects applied"+state, "s", vidraSide, last)
	return o.edit(ctx, far, r, 8001+100*phase, "edit in a healthy cluster"+state)
}

// edit edits an object of the first cluster, by turns on each side.
func (o *remotesOptions) edit(ctx context.Context, far *remotes, r *report, round int, name string) (err error) {
	floor, err := startFloor(ctx, far.floorConfig, far.namespace(0))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, floor.stop()) }()
	want, err := configMap.in(far.namespace(0))
	if err != nil {
		return err
	}
	applied, err := asObject(batch{round: round, sets: 1, perSet: o.perOwner}.text(far.namespace(0), 0))
	if err != nil {
		return err
	}
	resource := far.dynamic.Resource(configMap.gvr).Namespace(far.namespace(0))
	return alternate(ctx, r, []*side{
		{name: floorSide, target: stopwatch.Target{Resource: resource, Want: want, Timeout: 10 * time.Second}, patch: `{"data":{"greeting":"edited"}}`},
		{name: vidraSide, target: stopwatch.Target{Resource: resource, Want: applied, Timeout: 10 * time.Second}, patch: `{"data":{"number":"edited"}}`},
	}, o.edits, edit{name: name})
}

// startRemotes starts the API server and the proxies, and makes a Secret with a kubeconfig for each.
func startRemotes(ctx context.Context, l *lab, n int) (*remotes, error) {
	env, err := testenv.Start(ctx, testenv.Options{Out: os.Stderr, AllCPUs: true})
	if err != nil {
		return nil, err
	}
	far := &remotes{env: env}
	if far.dynamic, err = dynamic.NewForConfig(env.Config); err != nil {
		return nil, errors.Join(err, far.close())
	}
	for i := range n {
		if err := far.addCluster(ctx, l, i); err != nil {
			return nil, errors.Join(err, far.close())
		}
	}
	return far, nil
}

// namespace is that of a cluster.
func (far *remotes) namespace(i int) string { return fmt.Sprintf("bench-%d", i) }

// addCluster adds one cluster.
func (far *remotes) addCluster(ctx context.Context, l *lab, i int) error {
	upstream, err := far.env.UserConfig("vidra", "system:masters")
	if err != nil {
		return err
	}
	proxy, err := faultproxy.Start(upstream)
	if err != nil {
		return err
	}
	far.proxies = append(far.proxies, proxy)
	if err := applyObject(ctx, far.env.Config, "v1", "Namespace", "", far.namespace(i), nil); err != nil {
		return err
	}
	text, err := testenv.Kubeconfig(proxy.Config())
	if err != nil {
		return err
	}
	if i == 0 {
		file := far.env.Dir + "/floor.kubeconfig"
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
		far.floorConfig = file
	}
	return l.client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: testenv.OperatorNamespace, Name: far.namespace(i), Labels: map[string]string{cluster.KubeconfigLabel: ""},
			Annotations: map[string]string{cluster.AllowedNamespaces: far.namespace(i)},
		},
		StringData: map[string]string{"kubeconfig": string(text)},
	})
}

// close ends all of it.
func (far *remotes) close() error {
	for _, p := range far.proxies {
		p.Close()
	}
	return far.env.Stop()
}
