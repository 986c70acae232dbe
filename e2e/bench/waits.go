package main

import (
	"context"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// waitsGoal and waitsTailGoal are how many times the median and the 99th percentile of quiet heals those of heals may be while others wait.
	waitsGoal, waitsTailGoal = 1.5, 3.0
	// quietLine is the line without anything that waits.
	quietLine = "nothing waits"
	// slowPrefix begins the names of the objects that the webhook delays, for webhookDelay.
	slowPrefix   = "slow-"
	webhookDelay = 10 * time.Second
	// waitingNamespace has the objects of the other VidraResources, of which there are waitingSets with waitingObjects each.
	waitingNamespace            = "bench-waiting"
	waitingSets, waitingObjects = 10, 6
	// slowAnswers is how much later the slow cluster answers each request.
	slowAnswers = 5 * time.Second
	// downGroup is an API group whose server does not exist.
	downGroup = "down.bench.example.com"
)

// waitsOptions are the flags of waits.
type waitsOptions struct {
	rounds, objects int
	pause, timeout  time.Duration
}

func (o *waitsOptions) flags(fs *flag.FlagSet) {
	fs.IntVar(&o.rounds, "rounds", 30, "How many edits are made on each side in each case.")
	fs.IntVar(&o.objects, "objects", 3000, "How many objects are applied and pruned meanwhile.")
	fs.DurationVar(&o.pause, "pause", 50*time.Millisecond, "How long to wait between two edits.")
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "An edit that stands longer than this is missed.")
}

func (o *waitsOptions) check() error {
	return errors.Join(atLeastOne("rounds", o.rounds), atLeastOne("objects", o.objects))
}

func (o *waitsOptions) setup() setup {
	return setup{args: []string{"--kubeconfig-namespace=" + testenv.OperatorNamespace}}
}

// waitCase is a state in which other objects wait.
type waitCase struct {
	name string
	// begin brings it about, and end waits until the VidraResource can be changed again. end is optional.
	begin, end func(ctx context.Context) error
}

// measure measures how long an edit of one object stands while other objects wait: of the same VidraResource and of others. The floor is one
// PATCH for the same edit, at the same time.
func (o *waitsOptions) measure(ctx context.Context, l *lab) (_ *report, err error) {
	slow := text(vidraNamespace, slowPrefix+"one", "hello")
	base := manifest(vidraNamespace, len(kinds)) + "---" + slow
	if err := l.applyResource(ctx, resourceName, base, len(kinds)+1); err != nil {
		return nil, err
	}
	if err := applyObject(ctx, l.env.Config, "v1", "Namespace", "", waitingNamespace, nil); err != nil {
		return nil, err
	}
	others := batch{round: 8000, sets: waitingSets, perSet: waitingObjects, namespace: waitingNamespace}
	if err := l.rollOut(ctx, others); err != nil {
		return nil, err
	}
	far, err := startRemotes(ctx, l, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, far.close()) }()
	remote := batch{round: 8100, sets: waitingSets, perSet: waitingObjects, server: far.proxies[0].Config().Host, namespace: far.namespace(0)}
	if err := l.rollOut(ctx, remote); err != nil {
		return nil, err
	}
	floor, err := startFloor(ctx, l.kubeconfigs[floorNamespace], floorNamespace)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, floor.stop()) }()
	sides, err := newSides(l, floor, nil, &healOptions{timeout: o.timeout})
	if err != nil {
		return nil, err
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(webhookDelay):
		case <-r.Context().Done():
		}
		http.Error(w, "it took too long", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	r := &report{Settings: fmt.Sprintf("%d edits in each case, %d objects applied and pruned", o.rounds, o.objects), Environment: l.environment}
	slowRemote := waitCase{name: "other VidraResources wait for a slow cluster", begin: func(ctx context.Context) error {
		far.proxies[0].Inject(faultproxy.Match{}, faultproxy.Delay(slowAnswers))
		return l.changeEach(ctx, remote)
	}}
	for _, c := range append(o.cases(l, base, others, server), slowRemote) {
		if err := o.run(ctx, r, sides, c); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	r.sumUp()
	o.judge(r)
	return r, nil
}

// cases are the states in which edits are made.
func (o *waitsOptions) cases(l *lab, base string, others batch, server *httptest.Server) []waitCase {
	many := base
	for i := range o.objects {
		many += "---" + text(vidraNamespace, fmt.Sprintf("many-%d", i), "hello")
	}
	change := func(manifest string) func(context.Context) error {
		return func(ctx context.Context) error {
			return l.setManifest(ctx, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: resourceName}, Spec: v1alpha1.VidraResourceSpec{Manifest: manifest}})
		}
	}
	hook := delayingWebhook(server)
	remove := func(ctx context.Context) error { return client.IgnoreNotFound(l.client.Delete(ctx, hook.DeepCopy())) }
	delayed := func(do func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := l.client.Create(ctx, hook.DeepCopy()); err != nil {
				return err
			}
			return errors.Join(l.awaitWebhook(ctx), do(ctx))
		}
	}
	down := base + fmt.Sprintf("---\napiVersion: %s/v1\nkind: Thing\nmetadata:\n  name: down\n  namespace: %s\n", downGroup, vidraNamespace)
	return []waitCase{
		{name: quietLine},
		{name: "another object waits for a webhook", begin: delayed(change(strings.Replace(base, slowPrefix+"one", slowPrefix+"two", 1))), end: remove},
		{name: "the API of another kind is down", begin: func(ctx context.Context) error {
			service := map[string]any{"namespace": waitingNamespace, "name": "absent"}
			return errors.Join(applyObject(ctx, l.env.Config, "apiregistration.k8s.io/v1", "APIService", "", "v1."+downGroup, map[string]any{"spec": map[string]any{
				"group": downGroup, "version": "v1", "service": service, "groupPriorityMinimum": int64(1000), "versionPriority": int64(15), "insecureSkipTLSVerify": true,
			}}), change(down)(ctx))
		}, end: change(base)},
		{name: "others are applied", begin: change(many), end: func(ctx context.Context) error { return l.awaitObjects(ctx, resourceName, len(kinds)+1+o.objects) }},
		{name: "others are pruned", begin: change(base), end: func(ctx context.Context) error { return l.awaitObjects(ctx, resourceName, len(kinds)+1) }},
		{name: "other VidraResources wait for a webhook", begin: delayed(func(ctx context.Context) error { return l.changeEach(ctx, others) }), end: remove},
	}
}

// changeEach gives the VidraResources of a batch other objects, whose names have slowPrefix.
func (l *lab) changeEach(ctx context.Context, b batch) error {
	return l.eachResource(ctx, b, func(ctx context.Context, vr *v1alpha1.VidraResource) error {
		vr.Spec.Manifest = strings.ReplaceAll(vr.Spec.Manifest, "name: settings-", "name: "+slowPrefix+"settings-")
		return l.setManifest(ctx, vr)
	})
}

// run makes the edits of one case.
func (o *waitsOptions) run(ctx context.Context, r *report, sides []*side, c waitCase) error {
	if c.begin != nil {
		if err := c.begin(ctx); err != nil {
			return err
		}
	}
	e := edits[slices.IndexFunc(edits, func(e edit) bool { return e.kind == configMap && e.patch != "" })]
	e.name = c.name
	for i := range sides {
		sides[i].target = sides[i].targets[e.kind]
	}
	if err := alternate(ctx, r, sides, o.rounds, e); err != nil {
		return err
	}
	if c.end == nil {
		return nil
	}
	return c.end(ctx)
}

// judge compares Vidra with itself, and notes the floor of the same time.
func (o *waitsOptions) judge(r *report) {
	quiet := r.side(quietLine, "ms", vidraSide)
	for _, l := range r.Lines {
		if vidra := l.side(vidraSide); l.Name != quietLine && vidra != nil && quiet.Median > 0 {
			r.Goals = append(r.Goals,
				goal{"median while " + l.Name + ", to the quiet one", round2(vidra.Median / quiet.Median), waitsGoal},
				goal{"99th percentile while " + l.Name + ", to the quiet one", round2(vidra.P99 / quiet.P99), waitsTailGoal})
		}
	}
	r.Notes = append(r.Notes, "The floor is one PATCH for the same edit, at the same time: while thousands of objects are written, it takes longer, too.")
}

// text is the manifest of a ConfigMap.
func text(namespace, name, value string) string {
	return fmt.Sprintf("\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: %s\ndata:\n  greeting: %s\n", name, namespace, value)
}

// delayingWebhook delays writes of the objects whose names begin with slowPrefix, and then refuses them.
func delayingWebhook(server *httptest.Server) *admissionregistrationv1.ValidatingWebhookConfiguration {
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "delay.bench.example.com"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "delay.bench.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: ptr.To(int32(20)), AdmissionReviewVersions: []string{"v1"},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "slow", Expression: fmt.Sprintf("request.name.startsWith(%q)", slowPrefix)}},
		}},
	}
}

// awaitWebhook waits until the API server asks the webhook.
func (l *lab) awaitWebhook(ctx context.Context) error {
	for ctx.Err() == nil {
		short, cancel := context.WithTimeout(ctx, time.Second)
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: waitingNamespace, Name: slowPrefix + "probe"}}
		err := l.client.Create(short, probe, client.DryRunAll)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), apierrors.IsInternalError(err):
			return nil
		case err != nil:
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// awaitObjects waits until a VidraResource has so many objects, and has been reconciled since its last change.
func (l *lab) awaitObjects(ctx context.Context, name string, n int) error {
	return bounded(ctx, applyTimeout, func(ctx context.Context) error {
		for {
			vr := &v1alpha1.VidraResource{}
			if err := l.client.Get(ctx, client.ObjectKey{Name: name}, vr); err != nil {
				return err
			}
			if vr.Status.ObservedGeneration == vr.Generation && int(vr.Status.Objects) == n {
				return nil
			}
			if err := sleep(ctx, 100*time.Millisecond); err != nil {
				return fmt.Errorf("VidraResource %s has %d objects, and not %d: %w; see %s", name, vr.Status.Objects, n, err, l.operator.Log)
			}
		}
	})
}
