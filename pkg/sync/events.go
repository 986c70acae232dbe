package sync

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// Actions of Events.
const (
	actionQuery = "Query"
	actionWrite = "Write"
)

// Catalogue returns the entries of the Events that regard InfrahubSyncs. A Warning has the reason of the condition Ready.
func Catalogue() []events.Entry { return slices.Clone(catalogue) }

var catalogue = []events.Entry{
	{
		Reason: v1alpha1.SyncReasonSynced, Type: corev1.EventTypeNormal, Actions: []string{actionWrite},
		When: "A sync created, changed or deleted VidraResources, which the note names, or published a revision, or the sync succeeds again after a Warning.",
		Do:   "Nothing.",
	},
	warning(v1alpha1.SyncReasonSpecInvalid, "A field of the spec of an InfrahubSync cannot be used.", "Correct the field that the note names."),
	warning(v1alpha1.SyncReasonCredentialsMissing, "No Secret has credentials for the host, or it cannot be read, or it is for another URL. Nothing is changed or deleted.", "Create or correct the Secret, see [infrahub.md](infrahub.md#credentials)."),
	warning(v1alpha1.SyncReasonUnauthorized, "The Infrahub server answered 401, also after a new login. Nothing is changed or deleted.", "Correct the username and password, or the token, in the Secret."),
	warning(v1alpha1.SyncReasonForbidden, "The Infrahub server answered 403. Nothing is deleted.", "Give the account in Infrahub the right to run the query and to view artifacts."),
	warning(v1alpha1.SyncReasonNotFound, "The Infrahub server answered 404 to the query. Nothing is deleted.", "Check the URL and the branch, and that the query is in Infrahub."),
	warning(v1alpha1.SyncReasonRateLimited, "The Infrahub server answered 429. Vidra waits for as long as the header Retry-After says, at most an hour. Nothing is deleted.", "Set a longer `spec.interval`."),
	warning(v1alpha1.SyncReasonServerError, "The Infrahub server answered 5xx. Nothing is deleted.", "See the log of the Infrahub server."),
	warning(v1alpha1.SyncReasonUnreachable, "The Infrahub server cannot be reached, has no valid certificate, or did not answer in time. Nothing is deleted.", "Check the URL, the network, and the key `ca.crt` of the Secret."),
	warning(v1alpha1.SyncReasonRedirected, "The server answered with a redirect. Vidra does not follow it, because the credentials are for one server alone. Nothing is deleted.", "Set `infrahubAPIURL` to the URL that is not redirected."),
	warning(v1alpha1.SyncReasonQueryFailed, "The Infrahub server answered the query with errors, also where it has data beside them. Nothing is deleted.", "Correct the query in Infrahub, see [infrahub.md](infrahub.md#the-query)."),
	warning(v1alpha1.SyncReasonInvalidAnswer, "The answer is incomplete, too large, an HTML page, or no answer of an Infrahub server. Nothing is deleted.", "Check the URL, the proxies before the server, and the query."),
	warning(v1alpha1.SyncReasonArtifactsFailed, "Some artifacts are not applied: not Ready, no YAML or JSON, unreadable, not sent by the server, or refused by the API server. Their VidraResources stay as they are, and removals wait. `status.problems` has each of them.", "Read the note."),
	warning(v1alpha1.SyncReasonConfirmationRequired, "VidraResources whose artifacts are gone are not deleted, because `spec.prune` is Confirm, because the server lists no artifact any more, or because they are more than half.", "If the removal is intended, confirm it with the command of the note. Otherwise restore the artifacts in Infrahub."),
	warning(v1alpha1.SyncReasonWriteFailed, "The API server refused to list or delete VidraResources.", "Read the note, which has the answer of the API server. The text of a policy or webhook that refuses a deletion is withheld: see its own log."),
}

func warning(reason, when, do string) events.Entry {
	return events.Entry{Reason: reason, Type: corev1.EventTypeWarning, Actions: []string{actionQuery}, When: when, Do: do}
}

// record records the Events of a sync: on transitions of Ready, and for written VidraResources.
func (r *Reconciler) record(is *v1alpha1.InfrahubSync, after *v1alpha1.InfrahubSyncStatus, result result) {
	on := corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.SyncKind, Name: is.Name, UID: is.UID}
	r.Recorder.Record(transitions(on, is.Status.Conditions, after.Conditions, result))
}

// transitions returns the Events of a sync. It is pure.
func transitions(on corev1.ObjectReference, before, after []metav1.Condition, result result) (all []events.Event) {
	was, is := meta.FindStatusCondition(before, v1alpha1.ConditionReady), meta.FindStatusCondition(after, v1alpha1.ConditionReady)
	if is == nil {
		return nil
	}
	var wrote []string
	for _, w := range []struct {
		verb  string
		names []string
	}{{"created", result.written.created}, {"changed", result.written.updated}, {"deleted", result.written.deleted}} {
		if n := len(w.names); n > 0 {
			wrote = append(wrote, fmt.Sprintf("%s %s (%s)", w.verb, display.Plural(n, "VidraResource"), display.First(w.names, maxNames, n)))
		}
	}
	if result.published != "" {
		wrote = append(wrote, "published revision "+result.published)
	}
	failed := is.Status == metav1.ConditionFalse
	recovered := !failed && is.Reason == v1alpha1.SyncReasonSynced && was != nil && was.Status == metav1.ConditionFalse
	if recovered {
		wrote = append(wrote, "the sync succeeds again")
	}
	if len(wrote) > 0 {
		all = append(all, events.Event{
			Type: corev1.EventTypeNormal, Reason: v1alpha1.SyncReasonSynced, Action: actionWrite, Regarding: on,
			Note: strings.Join(wrote, ", "), Variant: strings.Join(wrote, ", "),
		})
	}
	if failed && (was == nil || was.Status != is.Status || was.Reason != is.Reason || was.Message != is.Message) {
		all = append(all, events.Event{Type: corev1.EventTypeWarning, Reason: is.Reason, Action: actionQuery, Regarding: on, Note: is.Message, Variant: is.Message})
	}
	return all
}
