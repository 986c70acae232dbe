package object

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// NotServed returns the failure of an object whose kind is unserved. See NotServedVersion for a kind that is served in
// another version.
func NotServed(gvk schema.GroupVersionKind) *Failure {
	return &Failure{Reason: v1alpha1.ReasonKindUnavailable, Message: fmt.Sprintf(
		"kind %s of %s is not served here: install its CustomResourceDefinition, or correct the kind or apiVersion",
		gvk.Kind, gvk.GroupVersion())}
}

// NotServedVersion returns the failure of an object whose kind the API server serves in another version alone.
func NotServedVersion(gvk schema.GroupVersionKind, served schema.GroupVersion) *Failure {
	return &Failure{Reason: v1alpha1.ReasonKindUnavailable, Message: fmt.Sprintf(
		"kind %s is not served in %s here, but in %s: set apiVersion to %s, and check the fields, which may differ between versions",
		gvk.Kind, gvk.GroupVersion(), served, served)}
}

// MaxReason is how many bytes of a reason or rule that a user gave are reported.
const MaxReason = 256

// KindGone reports whether an error means that the kind is unserved, so far or by now.
func KindGone(err error) bool {
	return meta.IsNoMatchError(err) || kindTerminating(err) ||
		apierrors.IsNotFound(err) && !MissingNamespace(err) && !isAboutObject(err)
}

// kindTerminating reports whether an error means that creates of a kind are refused, because its
// CustomResourceDefinition is being deleted. The text is in
// k8s.io/apiextensions-apiserver/pkg/apiserver.
func kindTerminating(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "not allowed while custom resource definition is terminating")
}

// crdTerminating refuses the apply of objects of a kind whose CustomResourceDefinition is being
// deleted: the kind may come back, like an unserved kind.
func crdTerminating(gvk schema.GroupVersionKind) *Failure {
	return &Failure{Reason: v1alpha1.ReasonKindUnavailable, Message: fmt.Sprintf(
		"objects of the kind %s of %s can be deleted, but not applied, as while its CustomResourceDefinition is terminating: "+
			"find out what blocks its deletion, and install it again", gvk.Kind, gvk.GroupVersion())}
}

// CannotBeKept refuses the apply of objects of a kind that lacks verbs. Patch alone is
// the verb that a kind lacks whose CustomResourceDefinition is terminating.
func CannotBeKept(gvk schema.GroupVersionKind, lacks []string) *Failure {
	if slices.Equal(lacks, []string{"patch"}) {
		return crdTerminating(gvk)
	}
	return &Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: fmt.Sprintf(
		"objects of the kind %s of %s cannot be kept, because the API server offers no %s for them: take it out of the manifest",
		gvk.Kind, gvk.GroupVersion(), strings.Join(lacks, ", "))}
}

// IsAbsent reports whether an error says that the object name is absent. An absent resource is answered without details, and a text, for example of a
// proxy, is no answer of the API server: the client adds the name to it.
func IsAbsent(err error, name string) bool {
	details := DetailsOf(err)
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err) && details != nil && details.Name == name
}

// isAboutObject reports whether a NotFound error names an object, of any kind: the API server answers so where an object names another
// one that must exist, such as the Role of a RoleBinding.
func isAboutObject(err error) bool {
	details := DetailsOf(err)
	return details != nil && details.Name != ""
}

// DetailsOf returns the details in an answer of the API server; nil for another error.
func DetailsOf(err error) *metav1.StatusDetails {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	return status.Status().Details
}

// Unanswered reports whether the API server may have executed a request that failed: the answer is missing,
// or an error of the server itself.
func Unanswered(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// Unmergeable reports whether an apply failed because of the object that exists: a list of it
// has an item without its key, for example, which some kinds allow in an update, and
// which server-side apply fails to merge (k8s.io/apimachinery/pkg/util/managedfields/internal,
// structuredMergeManager.Apply). The API server has no reason of its own for it.
func Unmergeable(err error) bool {
	if err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsInternalError(err) {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "failed to create typed live object") || strings.Contains(text, "failed to create manager for existing fields")
}

// UnservedVersion returns the apiVersion in managedFields that failed a write, because the API server has stopped serving it;
// empty for another error. The text is in k8s.io/apiextensions-apiserver/pkg/apiserver/conversion.
func UnservedVersion(err error) string {
	if err == nil {
		return ""
	}
	_, after, found := strings.Cut(err.Error(), "request to convert CR to an invalid group/version: ")
	if version := strings.Fields(after); found && len(version) > 0 {
		return strings.Trim(version[0], `",;`)
	}
	return ""
}

// MissingNamespace reports whether an error means that the namespace of the object
// is absent.
func MissingNamespace(err error) bool {
	details := DetailsOf(err)
	return apierrors.IsNotFound(err) && details != nil && details.Kind == "namespaces"
}

// TerminatingNamespace refuses the apply of an object in a terminating namespace.
func TerminatingNamespace(id Identity) *Failure {
	return &Failure{Reason: v1alpha1.ReasonNamespaceTerminating, Message: fmt.Sprintf(
		"waits until the namespace %s, which is being deleted, is there again", id.Namespace)}
}

// misfit reports whether an error means that an applied configuration violates
// the schema, as one with an unknown field or with text in another encoding than base64
// does. The API server answers that with code 500 and no reason; its text is in
// k8s.io/apimachinery/pkg/util/managedfields/internal.
func misfit(err error) bool {
	return strings.Contains(err.Error(), "failed to create typed patch object") ||
		strings.Contains(err.Error(), "failed to convert new object")
}

// Denied reports whether an admission webhook or policy refused a request, which it may
// do with any code, and does with the code of a bad request by default. The
// texts are in k8s.io/apiserver/pkg/admission/plugin, webhook/errors and policy/validating.
func Denied(err error) bool {
	text := err.Error()
	return strings.Contains(text, "admission webhook ") && strings.Contains(text, " denied the request") ||
		strings.Contains(text, "ValidatingAdmissionPolicy ") && strings.Contains(text, " denied request") || DeniedByMutatingPolicy(err)
}

// byMutatingPolicy matches the message about a MutatingAdmissionPolicy in k8s.io/apiserver/pkg/admission/plugin/policy/generic.
var byMutatingPolicy = regexp.MustCompile(`^policy ['"][^'"]+['"] (with binding '[^']+' )?denied request: `)

// DeniedByMutatingPolicy reports whether a MutatingAdmissionPolicy failed, which refuses the request. The API server calls that invalid.
func DeniedByMutatingPolicy(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && byMutatingPolicy.MatchString(status.Status().Message)
}

// reasoned is an error with a reason of its own.
type reasoned interface {
	error
	// AsFailure returns the reason, and a message for users. whole is the error that wraps this
	// one. known is the decision about values of the object.
	AsFailure(whole error, known ownership.Disclosure) Failure
}

// Explain turns the error of an apply into a reason and a message for users. known is the decision
// about values of the object.
func Explain(err error, gvk schema.GroupVersionKind, id Identity, known ownership.Disclosure) Failure {
	own, is := errors.AsType[reasoned](err)
	switch {
	case is:
		return own.AsFailure(err, known)
	case kindTerminating(err):
		return *crdTerminating(gvk)
	case KindGone(err):
		return *NotServed(gvk)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return *TerminatingNamespace(id)
	case MissingNamespace(err):
		return Failure{
			Reason:  v1alpha1.ReasonApplyFailed,
			Message: fmt.Sprintf("namespace %s does not exist: create it, or add it to the manifest", id.Namespace),
		}
	case apierrors.IsNotFound(err) && isAboutObject(err) && !IsAbsent(err, id.Name): // the API server names the kind of the one that is applied
		return Failure{Reason: v1alpha1.ReasonApplyFailed, Message: "names an object that does not exist: create it, or add it to the manifest: " + Message(err, known)}
	case !Denied(err) && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) || misfit(err)):
		return Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: Message(err, known)}
	default:
		return Failure{Reason: v1alpha1.ReasonApplyFailed, Message: Message(err, known)}
	}
}

// WithoutValues returns an error with the text of Message. It wraps err.
func WithoutValues(err error, known ownership.Disclosure) error {
	if err == nil {
		return nil
	}
	return display.WithText(err, Message(err, known))
}

// DisclosureOf decides about values in the errors of requests about a VidraResource: a policy may quote its manifest.
func DisclosureOf(vr *v1alpha1.VidraResource) ownership.Disclosure {
	manifest := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"manifest": vr.Spec.Manifest}}}
	manifest.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
	manifest.SetAnnotations(vr.Annotations)
	return ownership.Disclose(false, ownership.SensitivityOf(manifest), false)
}

// Message is the text of an error. The API server quotes values in its errors, in
// full: long ones are shortened, and values of a sensitive object and of environment variables are left out. That a
// right is missing reveals nothing about an object. known is the decision about values of the object.
func Message(err error, known ownership.Disclosure) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !known.Withholds() || ownership.QuotesNothing(err) {
		text := invalidText(err, known)
		if text == "" {
			text = schemaText(misfitText(display.ErrorText(known.Redact(err.Error()))))
		}
		return display.Truncate(text, v1alpha1.MaxProblemMessage)
	}
	var fields []string
	for _, field := range schemaFields(err) {
		fields = append(fields, FieldWithoutValues(field, known))
	}
	if details := DetailsOf(err); details != nil {
		for _, cause := range shownCauses(details) {
			if cause.Field != "" && cause.Field != noField { // a policy names none
				fields = append(fields, FieldWithoutValues(cause.Field, known))
			}
		}
	}
	return ownership.WithoutMessage(err, fields)
}

// invalidText names the fields that the API server calls invalid, and its reasons, without
// the values that causeText leaves out; empty for another error.
func invalidText(err error, known ownership.Disclosure) string {
	details := DetailsOf(err)
	if !apierrors.IsInvalid(err) || details == nil {
		return ""
	}
	causes := shownCauses(details)
	messages, parts := make([]string, len(causes)), make([]string, 0, len(causes))
	for i, cause := range causes {
		messages[i] = cause.Message
	}
	for i, message := range known.RedactAll(messages...) {
		cause := causes[i]
		text := causeText(cause.Field, message)
		if cause.Field != "" && cause.Field != noField { // a policy names none
			text = cause.Field + ": " + text
		}
		parts = append(parts, text)
	}
	return strings.Join(slices.Compact(parts), "; ")
}

// maxCauses is how many causes of an answer a message has room for: the API server names each of tens of thousands of invalid fields.
const maxCauses = 64

// shownCauses returns the causes that a message shows.
func shownCauses(details *metav1.StatusDetails) []metav1.StatusCause {
	return details.Causes[:min(len(details.Causes), maxCauses)]
}

// Failure is the fault of an object.
type Failure struct {
	Reason  string
	Message string
	// Awaited reports that an event, another object or a user ends it, so that time alone causes no attempt.
	Awaited bool
	// AwaitsRelease reports that it ends when another VidraResource releases the object, which left its manifest.
	AwaitsRelease bool
	// Until is when the object is considered again in any case; zero if unset.
	Until time.Time
}

// lasting is an error that stays until a change.
type lasting struct{ error }

func (l lasting) Unwrap() error { return l.error }

// Lasts implements the interface that Lasting asks.
func (lasting) Lasts() bool { return true }

// AsLasting returns err as an error that is [Lasting].
func AsLasting(err error) error { return lasting{err} }

// Lasting reports whether a request would be refused again for the same reason, until something changes: for a value, a right, a
// policy or a quota. Others may succeed at the next attempt.
func Lasting(err error) bool {
	if own := (interface{ Lasts() bool })(nil); errors.As(err, &own) {
		return own.Lasts()
	}
	if MissingNamespace(err) || misfit(err) || Unmergeable(err) || Denied(err) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}
