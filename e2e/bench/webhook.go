package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// webhookLine is the line of webhook, and webhookName the name of its artifacts, InfrahubSync and Secrets.
	webhookLine = "changed artifact live"
	webhookName = "bench"
	webhookKey  = "a key of the benchmark"
	// firstVersion is what the artifacts have before the first change.
	firstVersion = "first"
)

// webhookOptions are the flags of webhook.
type webhookOptions struct {
	rounds, artifacts int
	pause, timeout    time.Duration
}

func (o *webhookOptions) flags(fs *flag.FlagSet) {
	fs.IntVar(&o.rounds, "rounds", 20, "How many artifacts are changed.")
	fs.IntVar(&o.artifacts, "artifacts", 200, "How many artifacts the Infrahub server lists.")
	fs.DurationVar(&o.pause, "pause", 1500*time.Millisecond, "How long to wait between two changes. Vidra leaves a second between two syncs.")
	fs.DurationVar(&o.timeout, "timeout", time.Minute, "How long a change may take, and all artifacts at the beginning.")
}

func (o *webhookOptions) check() error {
	return errors.Join(atLeastOne("rounds", o.rounds), atLeastOne("artifacts", o.artifacts))
}

func (o *webhookOptions) setup() setup { return setup{} }

// measure measures the time from a webhook of Infrahub until the object of the changed artifact is live. The floor is one PATCH of a
// ConfigMap. One watch shows both.
func (o *webhookOptions) measure(ctx context.Context, l *lab) (*report, error) {
	infrahub := standin.New(standin.Options{})
	server := httptest.NewServer(infrahub)
	defer server.Close()
	address, err := o.acceptWebhooks(ctx, l)
	if err != nil {
		return nil, err
	}
	for i := range o.artifacts {
		infrahub.Set(webhookArtifact(i, firstVersion))
	}
	if err := bounded(ctx, o.timeout, func(ctx context.Context) error { return o.sync(ctx, l, server.URL) }); err != nil {
		return nil, err
	}
	r := &report{Settings: fmt.Sprintf("%d rounds, %d artifacts", o.rounds, o.artifacts), Environment: l.environment}
	err = l.measureLive(ctx, r, liveRounds{
		line: webhookLine, unit: "webhook", rounds: o.rounds, pause: o.pause, timeout: o.timeout,
		name: func(round int) string { return webhookObject(round % o.artifacts) },
		floor: func(ctx context.Context, round int, version string) error {
			return l.applyVersion(ctx, webhookObject(round%o.artifacts), version)
		},
		vidra: func(ctx context.Context, round int, version string) error {
			infrahub.Set(webhookArtifact(round%o.artifacts, version))
			return sendWebhook(ctx, address, version)
		},
	})
	r.Notes = append(r.Notes, "Between the webhook and the object are an annotation of the InfrahubSync, a query, the content of the artifact, and a write of the VidraResource.")
	return r, err
}

// acceptWebhooks starts the operator again, with a receiver of webhooks, and returns its address.
func (o *webhookOptions) acceptWebhooks(ctx context.Context, l *lab) (address string, err error) {
	port, err := testenv.FreePort()
	if err != nil {
		return "", err
	}
	address = fmt.Sprintf("127.0.0.1:%d", port)
	key := filepath.Join(l.env.Dir, "webhook.key")
	err = errors.Join(os.WriteFile(key, []byte(webhookKey), 0o600), l.operator.Stop(time.Minute))
	if err != nil {
		return "", err
	}
	return address, l.startOperator(ctx, "--infrahub-webhook-bind-address="+address, "--infrahub-webhook-key-file="+key)
}

// sync makes an InfrahubSync of a server, and waits until all its artifacts are applied and their objects are there.
func (o *webhookOptions) sync(ctx context.Context, l *lab, url string) error {
	is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: webhookName}}
	is.Spec.Source = v1alpha1.InfrahubSyncSource{InfrahubAPIURL: url, ArtifactName: webhookName}
	is.Spec.Destination = v1alpha1.InfrahubSyncDestination{Namespace: vidraNamespace, ReconcileOnEvents: true}
	is.Spec.Interval = &metav1.Duration{Duration: time.Hour}
	err := errors.Join(
		l.client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: webhookName, Labels: map[string]string{v1alpha1.InfrahubURLLabel: "127.0.0.1"}},
			StringData: map[string]string{"username": "admin", "password": "infrahub"},
		}),
		l.client.Create(ctx, is))
	for err == nil {
		var all corev1.ConfigMapList
		if err = l.client.List(ctx, &all, client.InNamespace(vidraNamespace)); err == nil {
			live := slices.DeleteFunc(all.Items, func(cm corev1.ConfigMap) bool { return cm.Data["version"] != firstVersion })
			if len(live) == o.artifacts { // the namespace may have objects of other benchmarks
				return l.awaitQuiet(ctx)
			}
		}
		err = errors.Join(err, sleep(ctx, 100*time.Millisecond))
	}
	return err
}

// webhookObject returns the name of the object of an artifact.
func webhookObject(i int) string { return fmt.Sprintf("artifact-%d", i) }

// webhookArtifact returns a version of an artifact.
func webhookArtifact(i int, version string) standin.Artifact {
	name := webhookObject(i)
	return standin.Artifact{ID: name, Name: webhookName, Branch: "main", Content: fmt.Sprintf(
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  version: %q\n", name, version)}
}

// sendWebhook sends a webhook as Infrahub does.
func sendWebhook(ctx context.Context, address, id string) error {
	header, body := standin.Webhook(webhookKey, id, "infrahub.artifact.updated", "main", time.Now())
	return post(ctx, "http://"+address+"/infrahub", header, body)
}

// post sends a request that must be accepted.
func post(ctx context.Context, url string, header http.Header, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // there is nothing in it
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the receiver of webhooks answered %s", response.Status)
	}
	return nil
}
