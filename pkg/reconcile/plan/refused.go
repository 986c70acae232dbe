package plan

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/metawatch"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

const (
	// sureAttempts is the number of attempts in a row with the same evidence after which no further one is sent, if the evidence is
	// all that the refusal depends on. A first attempt may have been refused for a state that was over when the watch was asked.
	sureAttempts = 2
	// maxAttempts is that number for other refusals, and attemptsTake the time that these attempts take at least: as long as with the backoff. Events
	// that make attempts at once would have a short outage of a webhook count as a lasting refusal.
	maxAttempts  = 6
	attemptsTake = 15 * time.Second
	// maxObstacles is the number of watches on the obstacles of one VidraResource.
	maxObstacles = 16
	// readAgain is the delay of a reconcile that reads an object again that is being deleted.
	readAgain = time.Second
)

// Refused is a refusal of an apply or of a removal that lasts while the object, the manifest, the spec and the obstacles are the same,
// or a deletion that waits for finalizers.
type Refused struct {
	key trigger.ObjectKey
	// manager is the field manager that owns the field in conflict; empty if the whole object was the reason.
	manager string
	// Other is the VidraResource of that manager; empty if it is unknown.
	Other string
	// obstacles are the objects beside it that the refusal depends on.
	obstacles []metawatch.Key
	// removal reports that the removal of the object was refused, or waits; otherwise its apply was, or does.
	removal bool
	// deleting reports that the object is being deleted: each change of it counts.
	deleting bool
	// sure reports that the evidence is all that the refusal depends on.
	sure     bool
	evidence evidence
	// configuration is the refused one.
	configuration string
	// attempts is how many attempts in a row had the same evidence, the first of them at since and the last at last.
	attempts    int
	since, last time.Time
}

// evidence are the facts of a refusal, as far as watches show them.
type evidence struct {
	// object is the evidence in the object, if its watch shows it.
	object trigger.Evidence
	shown  bool
	// obstacles are the states of the obstacles, if all of them are watched.
	obstacles string
	watched   bool
}

// NoteRefusal records a failed apply of an object for its next attempts. It must be called for every failure.
func (p *Planner) NoteRefusal(o *Object, err error) {
	if o.Desired != nil {
		p.noteRefusal(o, o.Desired.Key, o.Desired.Configuration, err)
	}
}

// NoteRefusedRemoval is NoteRefusal for the removal of an object. Nil is a removal that is held.
func (p *Planner) NoteRefusedRemoval(o *Object, key trigger.ObjectKey, err error) {
	p.noteRefusal(o, key, "", err)
}

// NoteDeleting records that an object of a resourceVersion is being deleted, and waits for finalizers. It is read again when its watch
// shows another version, and when its deletion begins to count as blocked, at blockedAt. The object has a problem already.
func (p *Planner) NoteDeleting(o *Object, key trigger.ObjectKey, version string, blockedAt time.Time) {
	if o.Problem.Reason != v1alpha1.ReasonDeletionBlocked {
		o.Problem.Until = blockedAt
	}
	r := &Refused{key: key, removal: o.Desired == nil, deleting: true, sure: true, attempts: sureAttempts}
	if o.Desired != nil {
		r.configuration = o.Desired.Configuration
	}
	r.evidence = evidence{object: trigger.EvidenceOfVersion(version), shown: true}
	o.Attempts.Refused = r
}

func (p *Planner) noteRefusal(o *Object, key trigger.ObjectKey, configuration string, err error) {
	before := o.Attempts.Refused
	o.Attempts.Refused = nil
	r := &Refused{key: key, configuration: configuration, removal: o.Desired == nil}
	switch conflict, refusal, occupied := new(owners.Conflict), new(owners.Refusal), new(owners.Occupied); {
	case errors.As(err, &conflict):
		r.manager, r.Other, r.sure = conflict.Manager, conflict.Other, true
	case errors.As(err, &occupied): // while that object stays, so does the container
		r.sure, r.obstacles = !occupied.Received, []metawatch.Key{occupying(occupied.Object)}
	case errors.As(err, &refusal):
		r.sure = true
		if _, found, _ := p.stored(key); !found { // it lacks the label
			r.obstacles = []metawatch.Key{{Cluster: key.Cluster, GVR: key.GVR, Namespace: key.Namespace, Name: key.Name}}
		}
	case err != nil && !object.Lasting(err):
		return
	default:
		r.obstacles = obstaclesOf(err, key)
	}
	r.evidence = p.evidenceOf(r)
	r.last = p.Now
	if r.attempts, r.since = 1, p.Now; before != nil && before.removal == r.removal && before.manager == r.manager && before.configuration == r.configuration &&
		before.evidence == r.evidence && slices.Equal(before.obstacles, r.obstacles) { // the states of two obstacles may be equal
		r.attempts, r.since = before.attempts+1, before.since
	}
	o.Attempts.Refused = r
}

// occupying selects the changes of an object in a container that may end its stay, or the stay of the container: a Lease is written each second, and an
// attempt lists all kinds.
func occupying(key trigger.ObjectKey) metawatch.Key {
	return metawatch.Key{Cluster: key.Cluster, GVR: key.GVR, Namespace: key.Namespace, Name: key.Name, Claims: true}
}

// Resources that refusals depend on.
var (
	quotas      = corev1.SchemeGroupVersion.WithResource("resourcequotas")
	limitRanges = corev1.SchemeGroupVersion.WithResource("limitranges")
	admission   = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
)

// obstaclesOf returns the objects whose change may end a refusal. The texts are in k8s.io/apiserver/pkg/admission/plugin,
// k8s.io/kubernetes/plugin/pkg/admission and k8s.io/kubernetes/pkg/registry/rbac/validation. For other refusals, such as a refusal by an
// external webhook, the next resync is the next attempt.
func obstaclesOf(err error, key trigger.ObjectKey) (all []metawatch.Key) {
	if err == nil {
		return nil
	}
	add := func(gvr schema.GroupVersionResource, namespace, name string) {
		all = append(all, metawatch.Key{Cluster: key.Cluster, GVR: gvr, Namespace: namespace, Name: name})
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "custom resource definition is terminating"):
		add(cluster.Definitions, "", key.GVR.Resource+"."+key.GVR.Group)
	case object.MissingNamespace(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		add(access.Namespaces, "", key.Namespace)
	case strings.Contains(text, "exceeded quota: "), strings.Contains(text, "failed quota: "):
		add(quotas, key.Namespace, "")
	case strings.Contains(text, "violates PodSecurity"):
		add(access.Namespaces, "", key.Namespace)
	case strings.Contains(text, "admission webhook "), strings.Contains(text, "mutating webhook"): // that which removes the label, for example
		add(admission.WithResource("validatingwebhookconfigurations"), "", "")
		add(admission.WithResource("mutatingwebhookconfigurations"), "", "")
	case strings.Contains(text, "AdmissionPolicy "):
		add(admission.WithResource("validatingadmissionpolicies"), "", "")
		add(admission.WithResource("validatingadmissionpolicybindings"), "", "")
	case object.DeniedByMutatingPolicy(err):
		add(admission.WithResource("mutatingadmissionpolicies"), "", "")
		add(admission.WithResource("mutatingadmissionpolicybindings"), "", "")
	case strings.Contains(text, "attempting to grant RBAC permissions not currently held"): // those in the role that it applies, or binds
		all = metawatch.Roles(key.Cluster, key.Namespace)
	case apierrors.IsForbidden(err) && !strings.Contains(text, " is forbidden: User "): // by an admission plugin, such as that of LimitRanges
		add(limitRanges, key.Namespace, "")
	case apierrors.IsInvalid(err) && strings.Contains(key.GVR.Group, "."):
		add(cluster.Definitions, "", key.GVR.Resource+"."+key.GVR.Group)
	}
	return all
}

// evidenceOf returns the evidence of a refusal that watches show.
func (p *Planner) evidenceOf(r *Refused) (now evidence) {
	if kept, found, synced := p.stored(r.key); p.Settings.Watched && found && synced {
		if r.deleting {
			now.object, now.shown = trigger.VersionIn(kept)
		} else {
			now.object, now.shown = trigger.EvidenceIn(kept, r.manager)
		}
	}
	now.watched = len(r.obstacles) > 0
	for _, key := range r.obstacles {
		state, known := p.Env.Obstacles.State(key)
		now.obstacles += state + "/"
		now.watched = now.watched && known
	}
	return now
}

// rests reports whether the last attempt would be refused again, as far as is known, so that the next one waits for a change.
func (p *Planner) rests(o *Object) bool {
	r := o.Attempts.Refused
	if o.Problem == nil || r == nil || r.removal != (o.Desired == nil) || !r.removal && r.configuration != o.Desired.Configuration {
		return false
	}
	enough := r.attempts >= maxAttempts && r.last.Sub(r.since) >= attemptsTake
	if r.sure && (r.evidence.watched || r.evidence.shown && len(r.obstacles) == 0) {
		enough = r.attempts >= sureAttempts
	}
	return enough && p.evidenceOf(r) == r.evidence
}

// Waits reports whether the next attempt at an object with a problem waits: it would be refused again, or its time is still to come. A resync, a changed spec
// or content of a source, a thing that the last attempt lacked, such as a right, and the time of the problem make one in any case.
func (p *Planner) Waits(o *Object) bool {
	if o.Problem == nil || !o.Problem.Until.IsZero() && !p.Now.Before(o.Problem.Until) || p.Scope.Resync || p.Revised || p.Causes.Retry {
		return false
	}
	r, caused := o.Attempts.Refused, p.Causes.All && !p.Scope.Sources // a source with the same content causes nothing
	ended := r != nil && (r.attempts == 0 || p.evidenceOf(r) != r.evidence)
	return p.rests(o) || !ended && !caused && !o.Attempts.Retry.due(p.Now, p.Scope.All)
}

// RestRemovals returns nil if the removal of all of them would be refused again. Otherwise it returns all, because the
// knowledge about one decides about its containers.
func (p *Planner) RestRemovals(ids []object.Identity) []object.Identity {
	for _, id := range ids {
		if !p.Waits(p.State.Objects.ByID[id]) {
			return ids
		}
	}
	return nil
}

// AwaitRefused has the VidraResource enqueued when an object with a refused apply or removal changes, or an obstacle of it,
// and when an object changes that is being deleted. client watches the obstacles, to which more are added; nil watches none.
func (p *Planner) AwaitRefused(client metadata.Interface, more iter.Seq[metawatch.Key]) {
	refused := map[trigger.ObjectKey]trigger.Evidence{}
	obstacles := map[metawatch.Key]struct{}{}
	for _, key := range slices.SortedFunc(more, metawatch.Key.Compare) { // the same ones each time
		if len(obstacles) < maxObstacles {
			obstacles[key] = struct{}{}
		}
	}
	changed, delay := false, time.Duration(0)
	for o := range p.State.Objects.All() {
		r := o.Attempts.Refused
		if r == nil {
			continue
		}
		for _, key := range r.obstacles {
			if len(obstacles) < maxObstacles {
				obstacles[key] = struct{}{}
			}
		}
		if !r.evidence.shown {
			continue
		}
		// An event may have arrived before. Of an object that was read, its watch may also be behind. The next attempt may have to wait for another
		// reason, as while the VidraResource is suspended: one change makes one reconcile.
		if now := p.evidenceOf(r); now.object != r.evidence.object && (now.shown || !r.deleting) {
			changed, delay = true, max(delay, map[bool]time.Duration{true: readAgain}[r.deleting])
			r.evidence, r.attempts, r.since, r.last = now, 0, p.Now, p.Now
		}
		if r.evidence.shown {
			refused[r.key] = r.evidence.object
		}
	}
	p.Env.Trigger.AwaitRefused(p.Settings.Claimant.Owner, refused)
	if client != nil {
		tenant, _, _ := strings.Cut(access.Account(p.VR), "/")
		p.Env.Obstacles.Sync(p.Settings.Claimant.Owner, tenant, client, maps.Keys(obstacles))
	}
	if changed {
		p.Env.Trigger.EnqueueAfter(delay, p.Settings.Claimant.Owner)
	}
}
