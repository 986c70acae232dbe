package sync

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	gosync "sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/clients"
	"github.com/vidra-operator/vidra/pkg/internal/parallel"
)

const (
	// WebhookPath is the path of the receiver.
	WebhookPath = "/infrahub"
	// maxWebhook is the size limit of a webhook.
	maxWebhook = 256 << 10
	// webhookWindow is the most difference between the times of a webhook and of the operator, and maxReplays the number of
	// ids that are remembered within it.
	webhookWindow = 5 * time.Minute
	maxReplays    = 20_000
	// webhooksPerSecond and webhookBurst bound the webhooks of one client, and webhooksAtATime all webhooks at a time.
	webhooksPerSecond, webhookBurst, webhooksAtATime = 50, 500, 32
	// requestGap is the least time between two requests for syncs.
	requestGap = 500 * time.Millisecond
	// minWebhookKey is the least length of a key in bytes.
	minWebhookKey = 8
	// lastRequest bounds the requests for syncs at the end of a process.
	lastRequest = 2 * time.Second
)

// webhookBackoff has the attempts to request syncs, half a minute in all: the sender of a webhook has its answer before them.
var webhookBackoff = wait.Backoff{Duration: requestGap, Factor: 2, Steps: 7}

// Outcomes of webhooks.
const (
	webhookAccepted = "accepted"
	webhookIgnored  = "ignored"
	webhookReplayed = "replayed"
	webhookRefused  = "refused"
	webhookInvalid  = "invalid"
	webhookLimited  = "limited"
	webhookFailed   = "failed"
)

// Receiver accepts webhooks of Infrahub as an http.Handler, and requests syncs with an annotation, so that any replica can accept them, as a manager.Runnable.
// Complete comes before both.
type Receiver struct {
	// KeyFile has the shared keys of the webhooks, one a line. It is read for each webhook, so that a mounted Secret may be
	// rotated.
	KeyFile string
	// API reads InfrahubSyncs, and Client writes the annotation.
	API    client.Reader
	Client client.Client
	// Installation is the installation of the operator.
	Installation v1alpha1.Installation
	Metrics      *Metrics
	Log          logr.Logger
	// Now is time.Now, except in tests.
	Now func() time.Time

	senders clients.Limiter
	wake    parallel.Signal

	received received
}

// received are the webhooks that were accepted.
type received struct {
	// mu guards the fields below.
	mu gosync.Mutex
	// seen are their ids, with their times.
	seen map[string]time.Time
	// branches are those whose InfrahubSyncs are to be synced; the empty one means all.
	branches map[string]bool
	// ended is whether the Receiver requests no more syncs. Its endpoint is open for longer.
	ended bool
}

// Complete sets the parts of a new Receiver that its user leaves out, and returns it.
func (r *Receiver) Complete() *Receiver {
	r.senders.PerSecond, r.senders.Burst, r.senders.AtATime = webhooksPerSecond, webhookBurst, webhooksAtATime
	r.wake = parallel.NewSignal()
	r.received.seen, r.received.branches = map[string]time.Time{}, map[string]bool{}
	if r.Now == nil {
		r.Now = time.Now
	}
	return r
}

// NeedLeaderElection is false: a Service may send a webhook to any replica.
func (r *Receiver) NeedLeaderElection() bool { return false }

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	outcome, status := r.receive(w, request)
	r.Metrics.webhooks.WithLabelValues(outcome).Inc()
	w.WriteHeader(status)
}

// receive checks a webhook, the limits before the signature, and notes its request.
func (r *Receiver) receive(w http.ResponseWriter, request *http.Request) (outcome string, status int) {
	switch {
	case request.URL.Path != WebhookPath:
		return webhookInvalid, http.StatusNotFound
	case request.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return webhookInvalid, http.StatusMethodNotAllowed
	case request.ContentLength > maxWebhook:
		return webhookLimited, http.StatusRequestEntityTooLarge
	}
	leave, ok := r.senders.Enter(request.RemoteAddr)
	if !ok {
		w.Header().Set("Retry-After", "1")
		return webhookLimited, http.StatusTooManyRequests
	}
	defer leave()
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxWebhook))
	if errors.As(err, new(*http.MaxBytesError)) {
		return webhookLimited, http.StatusRequestEntityTooLarge
	} else if err != nil {
		return webhookInvalid, http.StatusBadRequest
	}
	keys, err := r.keys()
	if err != nil {
		r.Log.Error(err, "Webhooks of Infrahub are refused: give --infrahub-webhook-key-file a file with the shared key")
		return webhookFailed, http.StatusServiceUnavailable
	}
	id, at := request.Header.Get("webhook-id"), request.Header.Get("webhook-timestamp")
	if id == "" || len(id) > 256 || !inWindow(at, r.Now()) || !signed(keys, id, at, body, request.Header.Values("webhook-signature")) {
		return webhookRefused, http.StatusUnauthorized
	}
	return r.accept(id, body)
}

// accept notes the request of a webhook with a valid signature.
func (r *Receiver) accept(id string, body []byte) (outcome string, status int) {
	var event struct {
		Event  string  `json:"event"`
		Branch *string `json:"branch"`
	}
	if json.Unmarshal(body, &event) != nil {
		return webhookInvalid, http.StatusBadRequest
	}
	r.received.mu.Lock()
	defer r.received.mu.Unlock()
	if r.received.ended {
		return webhookFailed, http.StatusServiceUnavailable
	}
	now := r.Now()
	if _, known := r.received.seen[id]; known {
		return webhookReplayed, http.StatusNoContent // a sender that got no answer sends it again
	}
	if len(r.received.seen) >= maxReplays {
		maps.DeleteFunc(r.received.seen, func(_ string, at time.Time) bool { return now.Sub(at) > 2*webhookWindow })
		if len(r.received.seen) >= maxReplays {
			return webhookLimited, http.StatusTooManyRequests
		}
	}
	r.received.seen[id] = now
	if event.Event != "infrahub.artifact.created" && event.Event != "infrahub.artifact.updated" {
		return webhookIgnored, http.StatusNoContent
	}
	branch := ""
	if event.Branch != nil {
		branch = *event.Branch
	}
	if len(r.received.branches) >= 100 {
		branch = "" // that many at a time are all of them
	}
	r.received.branches[branch] = true
	r.wake.Send()
	return webhookAccepted, http.StatusNoContent
}

// keys reads the keys.
func (r *Receiver) keys() (keys [][]byte, err error) {
	text, err := os.ReadFile(r.KeyFile)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if key := bytes.TrimSpace(lines.Bytes()); len(key) >= minWebhookKey {
			keys = append(keys, bytes.Clone(key))
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no key of at least %d bytes", r.KeyFile, minWebhookKey)
	}
	return keys, lines.Err()
}

// inWindow reports whether a time in seconds is about now.
func inWindow(at string, now time.Time) bool {
	seconds, err := strconv.ParseFloat(at, 64) // Infrahub may send a fraction
	if err != nil || seconds < 0 || seconds > 1e12 {
		return false
	}
	return now.Sub(time.Unix(int64(seconds), 0)).Abs() <= webhookWindow
}

// signed reports whether one of the signatures is the signature of a key over the id, the time and the raw body
// (https://www.standardwebhooks.com).
func signed(keys [][]byte, id, at string, body []byte, headers []string) bool {
	valid := false
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%s.", id, at) // never fails
		mac.Write(body)
		want := mac.Sum(nil)
		for _, header := range headers {
			for _, one := range strings.Fields(header) {
				version, text, _ := strings.Cut(one, ",")
				is, err := base64.StdEncoding.DecodeString(text)
				valid = valid || version == "v1" && err == nil && hmac.Equal(is, want)
			}
		}
	}
	return valid
}

// Start implements manager.Runnable: it requests the syncs of the noted branches until ctx ends, also after a short outage of the API server. A further
// webhook does not wait for the next attempt. The end has one more attempt.
func (r *Receiver) Start(ctx context.Context) error {
	gap := rate.NewLimiter(rate.Every(requestGap), 1)
	branches, failed := map[string]bool{}, map[string]bool{}
	defer func() { r.requestLast(ctx, branches, failed) }()
	backoff, again := webhookBackoff, (<-chan time.Time)(nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
			backoff = webhookBackoff
		case <-again:
		}
		if gap.Wait(ctx) != nil {
			return nil
		}
		r.received.mu.Lock()
		maps.Copy(branches, r.received.branches)
		clear(r.received.branches)
		r.received.mu.Unlock()
		err := r.request(ctx, branches, failed)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && backoff.Steps > 1 { // an API server that starts refuses requests until it has read its roles
			again = time.After(backoff.Step())
			continue
		}
		r.report(err)
		again = nil
		clear(branches)
		clear(failed)
	}
}

// requestLast refuses further webhooks, and requests the syncs of those that were accepted before the end of ctx.
func (r *Receiver) requestLast(ctx context.Context, branches, failed map[string]bool) {
	r.received.mu.Lock()
	r.received.ended = true
	maps.Copy(branches, r.received.branches)
	r.received.mu.Unlock()
	if len(branches)+len(failed) == 0 {
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRequest)
	defer cancel()
	r.report(r.request(last, branches, failed))
}

// report logs and counts an error of the last attempt to request syncs.
func (r *Receiver) report(err error) {
	if err != nil {
		r.Metrics.webhooks.WithLabelValues(webhookFailed).Inc()
		r.Log.Error(err, "A webhook of Infrahub has requested no sync: the next query comes at the interval")
	}
}

// request writes the annotation that requests a sync to the InfrahubSyncs of branches, and to those in failed, by their names. Branches whose InfrahubSyncs
// are known are removed, and failed has those whose request failed.
func (r *Receiver) request(ctx context.Context, branches, failed map[string]bool) error {
	list := &v1alpha1.InfrahubSyncList{}
	if err := r.API.List(ctx, list); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // there are none
	} else if err != nil {
		return fmt.Errorf("list InfrahubSyncs: %w", err)
	}
	var faults []error
	for i := range list.Items {
		is := &list.Items[i]
		wanted := branches[""] || branches[is.Spec.Source.TargetBranch] || failed[is.Name]
		if !wanted || is.Spec.Suspend || v1alpha1.Installation(is.Labels[v1alpha1.InstallationLabel]) != r.Installation {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
			v1alpha1.SyncRequestedAtAnnotation: r.Now().UTC().Format(time.RFC3339Nano),
		}}})
		if err != nil {
			return err
		}
		err = r.Client.Patch(ctx, &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: is.Name}}, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager))
		if failed[is.Name] = err != nil && !apierrors.IsNotFound(err); failed[is.Name] {
			faults = append(faults, fmt.Errorf("request a sync of InfrahubSync %s: %w", is.Name, err))
		}
	}
	clear(branches)
	return errors.Join(faults...)
}
