package apply

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// kind is what is sent to the API server about one object, or how the task ends.
type kind int

const (
	// The requests; send has what each of them is.
	observe           kind = iota // a dry run of the apply
	create                        // an apply that only creates
	reclaim                       // additions of an edit become ours
	releaseIgnored                // we release the fields that ignore rules name
	apply                         // the apply
	replaceLists                  // items that server-side apply cannot read are removed
	askOwners                     // after a conflict: which VidraResources own the object
	claim                         // our mark alone
	recheck                       // the object again, and whether it may be adopted, after a write of another client
	read                          // the object, because others write to it
	readUnowned                   // the object, because defaults may be in the way of an apply
	tryWithoutUnowned             // a dry run of the apply without these defaults
	returnReclaimed               // what was reclaimed is returned
	applyMarks                    // our label and annotation alone
	migrate                       // fields of the first operator become unmanaged
	convert                       // owners of a version that is not served any more get the applied version
	dropStale                     // fields of ours lose owners that state no lasting wish
	probe                         // whether the object would be accepted as a new one
	readReplaced                  // the object that may be replaced, and its owners
	confirm                       // the object, after an apply that reverts it and that got no answer

	// The ends. Nothing is sent any more.
	asIntended   // the object is as expected
	beingDeleted // the object is being deleted
	unchanged    // only users added something, which is reported
	observed     // the object is not reverted
	applied      // the object is as the manifest says
	replaced     // the object is to be deleted and created again
	completed    // the object has ended, and its controller has removed it
	failed
)

// ends reports whether nothing is sent any more.
func (k kind) ends() bool { return k >= asIntended }

// goal is what the requests of a moment achieve.
type goal int

const (
	toApply goal = iota
	// toUndo also undoes what an edit added.
	toUndo
	// toClean removes what users added to an object that is otherwise as the manifest says.
	toClean
)

// request is the next request about an object. It has all that is known when it is sent.
// decide makes the first one, and next each further one from the answer. Neither does I/O.
type request struct {
	known
	kind kind
	goal goal
	// as is why the object is applied at this moment: the removal of additions reverts drift.
	as plan.Why
	// live is the object as it is known now; nil if it is not known, or does not exist.
	live *unstructured.Unstructured
	// whole reports that the fields are released after the apply, which creates the object.
	whole bool
	// reduced is the applied configuration without what ignore rules exclude; nil if all of it
	// is sent.
	reduced []byte
	// force reports that the apply takes fields from all other managers.
	force bool
	// exact reports that the apply is for the object as live has it: it fails if another client has written it since. rechecks is how
	// often live was read again for that.
	exact    bool
	rechecks int
	// unreadable is the error of the apply about the lists that server-side apply cannot read, repairs is how often replaceLists
	// removed items of such lists, and listsReplaced reports that it may not be sent again.
	unreadable    error
	repairs       int
	listsReplaced bool
	// unserved is the version for which convert was sent, because of the request converting; empty if it was not.
	unserved   string
	converting kind
	// unanswered is the request that confirm is about, and lost what came of it; nil if confirm was not sent.
	unanswered kind
	lost       *answer
	// refused is why an apply was refused, while a request about that is under way.
	refused error
	undoing

	// fields is what differs in an object that is not reverted; unknown is why that is not
	// known.
	fields  []ownership.Change
	unknown string
	// added is what the edit added. unremovable describes what users added and what cannot be
	// removed, and why.
	added       ownership.Addition
	unremovable string
	// replace is the object to be deleted; nil if it is being deleted.
	replace *unstructured.Unstructured
	// altered is what may have changed a value of the applied configuration; see [Applier.alteredBy].
	altered string
	err     error
}

// body returns the applied configuration that is sent.
func (r request) body() []byte {
	if r.reduced != nil {
		return r.reduced
	}
	return r.Body
}

// answer is what came of a request.
type answer struct {
	// live is the object as the API server has it; nil if it does not exist.
	live *unstructured.Unstructured
	err  error
	// fresh is the object that a create or a reclaim conflicts with; freshErr is why it could
	// not be read.
	fresh    *unstructured.Unstructured
	freshErr error
	// forced reports that the apply took fields from all other managers.
	forced bool
	// reduced is the applied configuration without the fields that were released.
	reduced []byte
	// repaired reports that items were removed from lists that could not be read, and that nothing else was written.
	repaired bool
	// others are the other owners of live.
	others []owners.CoOwner
	// inside is what live holds, if it is a Namespace or CustomResourceDefinition that may be deleted.
	inside owners.Inside
}
