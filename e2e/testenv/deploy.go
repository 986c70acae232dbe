package testenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// OperatorDeployment is the name of the installed Deployment.
	OperatorDeployment = "vidra-operator"
	// nameLabel is the label by which a Deployment selects its Pods.
	nameLabel = "app.kubernetes.io/name"
	// The ports of the operator in a Pod.
	metricsPort, healthPort = 8443, 8081
)

var installedKey = client.ObjectKey{Namespace: OperatorNamespace, Name: OperatorDeployment}

// installedOperator reads the Deployment of the operator.
func (e *Env) installedOperator(ctx context.Context) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	if err := e.cluster.client.Get(ctx, installedKey, d); err != nil {
		return nil, fmt.Errorf("reading the Deployment of the operator: %w: install Vidra first", err)
	}
	return d, nil
}

// deploy starts an operator in the cluster that the Env is connected to, as StartOperator does.
func (e *Env) deploy(ctx context.Context, o OperatorOptions) (*Operator, error) {
	if o.Config != nil {
		return nil, errors.New("starting an operator in a Pod: it uses the configuration of its Pod, and no other one")
	}
	installed, err := e.installedOperator(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	number := len(e.operators) + 1
	d := &deployed{env: e, key: installedKey, number: number, done: make(chan struct{}), forwarding: make(chan struct{})}
	op := &Operator{Log: e.path(fmt.Sprintf("operator-%d.log", number)), runner: d}
	d.log = op.Log
	e.operators = append(e.operators, op)
	e.mu.Unlock()
	if len(o.Args) == 0 && len(o.Env) == 0 && o.Namespace == OperatorNamespace && o.ServiceAccount == OperatorServiceAccount {
		err = e.runInstalled(ctx)
		d.secure = true
	} else {
		err = d.create(ctx, installed, o)
	}
	if err == nil {
		err = d.start(ctx, op, o)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting an operator in a Pod: %w; %s", err, d.tail()), d.stop(stopTimeout))
	}
	return op, nil
}

// runInstalled starts the installed operator, without leader election: where the machine stands still for
// ten seconds, an elector ends the operator, and tests count what it does. e2e/deployed tests the election.
func (e *Env) runInstalled(ctx context.Context) error {
	if err := e.scaleDown(ctx, installedKey); err != nil {
		return err
	}
	if err := e.awaitNoPods(ctx, installedKey); err != nil {
		return err
	}
	args := slices.Clone(e.cluster.args)
	for i, arg := range args {
		if strings.HasPrefix(arg, "--leader-elect=") {
			args[i] = "--leader-elect=false"
		}
	}
	return e.configure(ctx, 1, args)
}

// configure sets the replicas and the arguments of the installed operator.
func (e *Env) configure(ctx context.Context, replicas int32, args []string) error {
	d, err := e.installedOperator(ctx)
	if err != nil {
		return err
	}
	before := client.MergeFrom(d.DeepCopy())
	d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Args = &replicas, args
	if err := e.cluster.client.Patch(ctx, d, before); err != nil {
		return fmt.Errorf("changing Deployment %s: %w", installedKey, err)
	}
	return nil
}

// deployed is an operator in a Pod.
type deployed struct {
	env *Env
	// key names its Deployment, which is deleted when it ends if own.
	key    client.ObjectKey
	own    bool
	number int
	// secure reports whether the metrics need a token.
	secure bool
	pod    *corev1.Pod
	log    string
	// done is closed when it has ended, and forwarding when its ports are closed.
	done, forwarding chan struct{}
	err              error
}

// NodeSelectorAnnotation is the annotation of a Namespace with which the admission plugin PodNodeSelector
// selects the nodes of its Pods.
const NodeSelectorAnnotation = "scheduler.alpha.kubernetes.io/node-selector"

// create makes a Deployment like the installed one, for other options.
func (d *deployed) create(ctx context.Context, installed *appsv1.Deployment, o OperatorOptions) error {
	d.key = client.ObjectKey{Namespace: o.Namespace, Name: fmt.Sprintf("vidra-e2e-%d-%d", os.Getpid(), d.number)}
	d.own = true
	labels := map[string]string{nameLabel: d.key.Name}
	template := installed.Spec.Template.DeepCopy()
	template.Labels = maps.Clone(labels)
	template.Spec.ServiceAccountName, template.Spec.DeprecatedServiceAccount = o.ServiceAccount, ""
	template.Spec.TopologySpreadConstraints, template.Spec.Affinity = nil, nil
	container := &template.Spec.Containers[0]
	container.Args = append([]string{
		fmt.Sprintf("--metrics-bind-address=:%d", metricsPort),
		"--metrics-secure=false",
		fmt.Sprintf("--health-probe-bind-address=:%d", healthPort),
		"--backstop-interval=0",
		"--leader-elect=false",
	}, o.Args...)
	for _, one := range o.Env {
		if name, value, _ := strings.Cut(one, "="); name != "POD_NAMESPACE" { // it has that of its Pod
			container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	// A namespace of a test may let no Pod run.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.key.Namespace}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, NodeSelectorAnnotation)
	if err := d.env.cluster.client.Patch(ctx, namespace, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("letting Pods run in namespace %s: %w", d.key.Namespace, err)
	}
	return d.env.cluster.client.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.key.Namespace, Name: d.key.Name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: *template,
		},
	})
}

// start waits for the Pod, and until the operator in it is ready.
func (d *deployed) start(ctx context.Context, op *Operator, o OperatorOptions) error {
	ctx, cancel := context.WithTimeout(ctx, o.ReadyTimeout)
	defer cancel()
	var err error
	if d.pod, err = d.awaitPod(ctx); err != nil {
		return err
	}
	if err := d.env.followLog(ctx, d.pod, d.log, d.done, o.Out); err != nil {
		return err
	}
	addresses, err := forwardPod(d.env.Config, d.pod, d.forwarding, metricsPort, healthPort)
	if err != nil {
		return d.whyNot(ctx, err)
	}
	op.HealthURL = "http://" + addresses[1]
	metrics := addresses[0]
	if d.secure {
		if metrics, err = serveWithToken(metrics, d.env.cluster.metricsToken, d.forwarding); err != nil {
			return err
		}
	}
	op.MetricsURL = "http://" + metrics + "/metrics"
	return d.whyNot(ctx, waitOK(ctx, http.DefaultClient, op.HealthURL+"/readyz", o.ReadyTimeout, nil))
}

// awaitPod waits until a container of the Deployment runs.
func (d *deployed) awaitPod(ctx context.Context) (*corev1.Pod, error) {
	for {
		pods, err := d.env.PodsOf(ctx, d.key)
		if err != nil {
			return nil, err
		}
		for i := range pods {
			for _, status := range pods[i].Status.ContainerStatuses {
				if status.State.Running != nil || status.RestartCount > 0 || status.State.Terminated != nil {
					return &pods[i], nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for a Pod of Deployment %s: %w (%d Pods)", d.key, ctx.Err(), len(pods))
		case <-time.After(poll):
		}
	}
}

// PodsOf lists the Pods of a Deployment that do not terminate.
func (e *Env) PodsOf(ctx context.Context, deployment client.ObjectKey) ([]corev1.Pod, error) {
	d := &appsv1.Deployment{}
	if err := e.cluster.client.Get(ctx, deployment, d); err != nil {
		return nil, err
	}
	all := &corev1.PodList{}
	err := e.cluster.client.List(ctx, all, client.InNamespace(deployment.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels))
	var pods []corev1.Pod
	for i := range all.Items {
		if all.Items[i].DeletionTimestamp == nil {
			pods = append(pods, all.Items[i])
		}
	}
	return pods, err
}

// whyNot adds how the container ended to an error, if it has ended.
func (d *deployed) whyNot(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	pod := &corev1.Pod{}
	if readErr := d.env.cluster.client.Get(context.WithoutCancel(ctx), client.ObjectKeyFromObject(d.pod), pod); readErr != nil {
		return errors.Join(err, readErr)
	}
	return fmt.Errorf("%w: %+v", err, pod.Status.ContainerStatuses)
}

// scaleDown has a Deployment run no Pods.
func (e *Env) scaleDown(ctx context.Context, deployment client.ObjectKey) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name}}
	if err := e.cluster.client.Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))); err != nil {
		return fmt.Errorf("scaling Deployment %s to 0: %w", deployment, err)
	}
	return nil
}

// tail implements runner.
func (d *deployed) tail() string { return tailFile(d.log) }

// ended implements runner.
func (d *deployed) ended() <-chan struct{} { return d.done }

// failure implements runner.
func (d *deployed) failure() error { return d.err }

// stop implements runner.
func (d *deployed) stop(timeout time.Duration) error {
	if !isOpen(d.done) {
		return fmt.Errorf("the operator of Deployment %s had ended before it was stopped", d.key)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout+podTimeout)
	defer cancel()
	return d.finish(ctx, d.env.scaleDown(ctx, d.key))
}

// kill implements runner. The process is frozen first, so that it does nothing after kill was
// called, while its Pod gets to know that it is to end.
func (d *deployed) kill() error {
	if !isOpen(d.done) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), podTimeout)
	defer cancel()
	err := d.env.SignalPod(ctx, d.pod, "STOP")
	if errors.Is(err, errNotRunning) { // it ended by itself
		err = d.env.scaleDown(ctx, d.key)
	} else if err == nil {
		err = cmp.Or(d.env.scaleDown(ctx, d.key), d.awaitTerminating(ctx), d.env.SignalPod(ctx, d.pod, "KILL"))
	}
	return d.finish(ctx, cmp.Or(err, d.env.clearLease(ctx, d.key.Namespace)))
}
