package search

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The Infrahub server of all runs: the artifacts of a run have its name.
var (
	infrahub    = standin.New(standin.Options{})
	infrahubURL string
)

const infrahubBranch = "main"

// startInfrahub starts the Infrahub server, with credentials for it, until the end of the process.
func startInfrahub(ctx context.Context) error {
	infrahubURL = httptest.NewServer(infrahub).URL
	to, err := url.Parse(infrahubURL)
	if err != nil {
		return err
	}
	return admin.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: "infrahub", Labels: map[string]string{v1alpha1.InfrahubURLLabel: to.Hostname()}},
		StringData: map[string]string{"username": "admin", "password": "infrahub"},
	})
}

// artifacts returns the artifacts of a spec: its manifest, or a file for each object of a published one.
func (r *run) artifacts(s spec) (all []standin.Artifact) {
	of := func(id string, s spec) {
		s.Parts = false
		text, _ := r.manifest(s)
		all = append(all, standin.Artifact{ID: id, Name: r.prefix, Branch: infrahubBranch, Content: text})
	}
	if s.Synced {
		of(r.owner(s.Name), s)
	}
	for o, variant := range s.Objects {
		if !s.Published {
			break
		}
		one := s
		one.Objects = map[string]int{o: variant}
		of(r.owner(s.Name)+"-"+strings.ToLower(strings.ReplaceAll(o, "/", "-")), one)
	}
	return all
}

// listAll has the Infrahub server list the artifacts of the specs of a step in place of the former ones, all at once: an object may move from one to another.
func (r *run) listAll(s step) {
	var gone []string
	var added []standin.Artifact
	for _, name := range s.Delete {
		for _, a := range r.artifacts(r.owners[name]) {
			gone = append(gone, a.ID)
		}
	}
	for _, is := range s.Apply {
		for _, a := range r.artifacts(r.owners[is.Name]) {
			gone = append(gone, a.ID)
		}
		added = append(added, r.artifacts(is)...)
	}
	if len(gone)+len(added) > 0 {
		infrahub.Change(gone, added...)
	}
}

// list has the Infrahub server list the artifacts of a spec in place of those of the former one, and requests a sync.
func (r *run) list(ctx context.Context, was, is spec) {
	r.listAll(step{Delete: []string{was.Name}, Apply: []spec{is}}) // again, within a step
	v := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: r.prefix}}
	err := cluster.MergePatch(v, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.SyncRequestedAtAnnotation, time.Now().Format(time.RFC3339Nano))
	if apierrors.IsNotFound(err) {
		v.Spec = v1alpha1.InfrahubSyncSpec{
			Source:   v1alpha1.InfrahubSyncSource{InfrahubAPIURL: infrahubURL, TargetBranch: infrahubBranch, ArtifactName: r.prefix},
			Interval: &metav1.Duration{Duration: time.Hour},
		}
		if is.Published {
			v.Spec.Publish = &v1alpha1.InfrahubSyncPublish{Namespace: r.main(), Name: r.prefix}
		} else {
			v.Spec.Destination = v1alpha1.InfrahubSyncDestination{Namespace: r.main(), ReconcileOnEvents: true}
		}
		err = admin.Create(ctx, v)
		r.publisher.Store(string(v.UID))
	}
	require.NoError(r, err)
}

// wrongSync confirms the removals that an InfrahubSync asks about, and returns which promises about it do not hold.
func (r *run) wrongSync(ctx context.Context) (wrong []string) {
	is := &v1alpha1.InfrahubSync{}
	if err := admin.Get(ctx, client.ObjectKey{Name: r.prefix}, is); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return []string{err.Error()}
	}
	listed := map[string]bool{}
	for _, s := range r.owners {
		if s.Synced || s.Published {
			for _, a := range r.artifacts(s) {
				listed[a.ID] = true
			}
		}
	}
	if p := is.Status.PendingRemovals; p != nil {
		if i := slices.IndexFunc(p.Names, func(name string) bool { return listed[strings.TrimSuffix(name, ".yaml")] }); i >= 0 {
			return []string{fmt.Sprintf("the InfrahubSync asks about the removal of %s, which is listed", p.Names[i])}
		}
		if is.Annotations[v1alpha1.ConfirmRemovalAnnotation] != p.Confirmation {
			require.NoError(r, cluster.MergePatch(is, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ConfirmRemovalAnnotation, p.Confirmation))
		}
	}
	c := meta.FindStatusCondition(is.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Reason != v1alpha1.SyncReasonSynced || is.Status.LastHandledSyncAt != is.SyncRequest() || int(is.Status.Applied) != len(listed) {
		wrong = append(wrong, fmt.Sprintf("the InfrahubSync has %d of %d artifacts, request %s of %s: %v", is.Status.Applied, len(listed), is.Status.LastHandledSyncAt, is.SyncRequest(), c))
	}
	return wrong
}

// endSync deletes the InfrahubSync, whose VidraResources are gone. The Secrets that it wrote go, too.
func (r *run) endSync(ctx context.Context) {
	require.NoError(r, client.IgnoreNotFound(admin.Delete(ctx, &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: r.prefix}})))
	require.NoError(r, wait.PollUntilContextTimeout(ctx, suite.Poll, patience, true, func(ctx context.Context) (bool, error) {
		left := &metav1.PartialObjectMetadataList{}
		left.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
		err := admin.List(ctx, left, client.InNamespace(testenv.OperatorNamespace), client.MatchingLabels{v1alpha1.SyncLabel: r.prefix})
		return err == nil && len(left.Items) == 0, err
	}), "the Secrets of the InfrahubSync are gone")
}
